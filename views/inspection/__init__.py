"""Inspection of plans and views: explained, proved, traced from row to row, and drawn over time."""
