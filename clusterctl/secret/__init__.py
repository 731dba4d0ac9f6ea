"""Secrets in names and texts: the one place that decides what counts as a secret, and hides it."""
