"""The same circuit over states that are cut into buckets, whose tasks may run anywhere."""
