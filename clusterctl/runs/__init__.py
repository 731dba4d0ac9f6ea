"""The runs in a directory of run folders: what became of each, and their removal."""
