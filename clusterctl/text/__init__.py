"""Texts: what was read from others, what people read, names, secrets, and files of a user."""
