"""The modules of ``check``: the command and how it is carried out."""
