"""Reach a node over SSH: its settings, the way to it, its host key, the login, and the commands on it."""
