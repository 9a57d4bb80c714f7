"""Threads and signals: the order of writers, threads that poll, and what Ctrl-C must not interrupt."""
