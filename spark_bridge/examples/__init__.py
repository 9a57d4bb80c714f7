"""Small programs that write a view's deltas elsewhere, each epoch once: to be read, copied and changed."""
