"""The catalogue of known error texts, and what a log says when it is read with it."""
