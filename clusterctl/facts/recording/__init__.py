"""Recordings: a fleet's raw answers without secrets, from which a check can be replayed without nodes."""
