"""Example programs that write a view's deltas to other systems, each epoch once, to be copied and changed."""
