"""Connectors read rows and write deltas: files, logs, frames of other libraries, and positions of sources."""
