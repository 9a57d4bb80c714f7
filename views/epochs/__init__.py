"""What happened: records of epochs, deltas by epoch, subscriptions, and the log of a run."""
