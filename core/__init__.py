"""The algebra and the clockwork: deltas, spines, operators, circuits. It has no users, files or Spark in it."""
