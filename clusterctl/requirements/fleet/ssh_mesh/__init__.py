"""``ssh-mesh``: each node can log in to each other node without a password."""
