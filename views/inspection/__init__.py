"""Questions to views: the plan in words, open windows, and why a window has not emitted."""
