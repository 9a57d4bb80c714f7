"""The plan of declared views before compiling: frozen nodes, and digests of what they compute."""
