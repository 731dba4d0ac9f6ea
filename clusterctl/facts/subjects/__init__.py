"""The subjects of the probe: one module each, with the shell fragments that a node runs and their parser."""
