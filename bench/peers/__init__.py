"""Other engines on the chain, one program each, each run by the interpreter of its own environment."""
