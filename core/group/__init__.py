"""Aggregates of groups, kept by adding and retracting."""
