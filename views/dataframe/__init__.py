"""What users call: sources, collections, windows, triggers and watermarks."""
