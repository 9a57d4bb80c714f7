"""Aggregates of groups are updated by adding and retracting rows."""
