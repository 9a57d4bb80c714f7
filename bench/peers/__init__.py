"""Other engines on the same questions, one program each, each run by the interpreter of its own environment."""
