"""The catalogue of known errors, and the search for them in logs."""
