"""``accept``: the rows that a cluster must pass, and the nodes that pass them."""
