"""The modules of ``bootstrap``: the command and its permissions."""
