"""Spark itself: its Java, sessions, versions, and its types beside those of polars."""
