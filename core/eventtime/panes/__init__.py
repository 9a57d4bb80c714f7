"""Panes: the rows that windows emit, and the retractions of earlier ones."""
