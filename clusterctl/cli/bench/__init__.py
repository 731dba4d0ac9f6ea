"""The modules of ``bench``: its options, its run and what follows a run."""
