"""What flows: deltas, schemas, clocks and instants, and the errors that users can cause."""
