"""The commands of ``image``."""
