"""Secrets in names and texts: the only package that decides what counts as a secret and hides it."""
