"""Input: Spark DataFrames and streams become the rows of sources."""
