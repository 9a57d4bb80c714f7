"""Where in event time: kinds of windows, which of them are open, and which rows come too late."""
