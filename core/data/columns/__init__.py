"""Columns of values: their words and hashes, groups, exact sums, and values as texts."""
