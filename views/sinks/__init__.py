"""Sinks write what a view holds, or its deltas, to systems outside: each epoch once, also after a crash of either side."""
