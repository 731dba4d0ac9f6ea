"""The modules of ``launch``: a program of the user, measured as ``bench`` measures its own."""
