"""Rows in and deltas out: files, logs, frames of other libraries, and positions in what is read."""
