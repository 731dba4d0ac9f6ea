"""Launchers: one module each, with the files that it needs and the argv that starts the ranks."""
