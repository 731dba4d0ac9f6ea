"""Containers on nodes: their files and keys, what a node can give them, ``up`` and ``down``."""
