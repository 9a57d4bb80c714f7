"""What makes an epoch outlive the process: commits, the log of inputs, restarts, and time travel."""
