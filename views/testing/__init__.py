"""The test kit for users of the library, imported as ``evercurrent.testing``; no other part imports it."""
