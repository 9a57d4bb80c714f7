"""When a window emits: kinds of triggers, and their states as columns."""
