"""The same plans as Structured Streaming queries. Nothing is here yet: embedded engines come first."""
