"""What enters: Spark DataFrames and streams as the rows of sources."""
