"""The algebra and the clockwork: deltas, spines, operators, circuits. Knows no user, no file and no Spark."""
