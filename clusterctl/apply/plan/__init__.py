"""Plan the steps that bring each node to its required state, as an ordered list per node."""
