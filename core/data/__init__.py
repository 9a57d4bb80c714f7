"""Deltas, schemas, clocks and instants, and the errors that users can cause."""
