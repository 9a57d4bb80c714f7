"""Inspection of plans and views: the plan in words, open windows, and why a window has not emitted a pane."""
