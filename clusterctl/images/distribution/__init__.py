"""Bring one image to many nodes, from a registry or from node to node."""
