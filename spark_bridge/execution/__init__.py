"""Micro-batches as epochs: jobs of Spark's Python workers, and the control of a query."""
