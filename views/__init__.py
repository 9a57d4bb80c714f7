"""What people touch: sources, collections, views, the engine and the command line."""
