"""For the tests of those who use the library; imported as ``evercurrent.testing``, and by nothing else in here."""
