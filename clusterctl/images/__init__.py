"""Container images that carry the collective library."""
