"""The modules of ``locate``."""
