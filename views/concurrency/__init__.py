"""Threads and signals: who writes next, who polls, and what Ctrl-C must not interrupt."""
