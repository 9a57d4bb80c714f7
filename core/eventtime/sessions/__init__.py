"""Sessions: spans of a key's event time without a gap, merged and split as rows come and go."""
