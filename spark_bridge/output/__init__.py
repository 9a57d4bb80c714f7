"""What leaves: views and their deltas as Spark DataFrames and streams."""
