"""What is emitted of a window, and what is retracted of what was emitted before."""
