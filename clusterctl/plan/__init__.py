"""The difference between what nodes are and what they must be, as an ordered list of steps per node."""
