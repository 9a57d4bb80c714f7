"""Records of epochs, deltas by epoch, subscriptions, refused rows, and the log of a run."""
