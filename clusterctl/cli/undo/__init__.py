"""The modules of ``undo``: the command and the run that it undoes."""
