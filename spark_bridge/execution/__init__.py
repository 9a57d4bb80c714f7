"""Micro-batches run as epochs: the jobs of Spark's Python workers, and the control of a query."""
