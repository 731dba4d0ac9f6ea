"""The commands of ``render``, and what commands that print artifacts share."""
