"""Applications that come with evercurrent: ``evercurrent apps`` lists them, ``evercurrent run NAME`` runs them."""
