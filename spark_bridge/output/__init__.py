"""Output: views and their deltas are returned as Spark DataFrames and streams."""
