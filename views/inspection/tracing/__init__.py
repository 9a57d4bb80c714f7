"""Rows are traced back through the plan: where a row comes from, what changed it and when, and why it is there or not."""
