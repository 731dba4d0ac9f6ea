"""Shell completion: the scripts of the shells, and the answers to their questions."""

REQUEST = "__complete"
"""The first word of a shell's request; what follows is described in ``answer``."""
