"""The commands of ``runs``."""
