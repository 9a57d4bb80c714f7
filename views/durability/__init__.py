"""Durability of epochs: commits, the log of inputs, restarts, and time travel."""
