"""The commands of ``results``."""
