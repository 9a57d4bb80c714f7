"""Deltas, schemas, clocks and instants, the columns that they consist of, and the errors that users can cause."""
