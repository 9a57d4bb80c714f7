"""The same circuit over states cut into buckets, wherever their tasks run."""
