"""Requirements that compare or connect nodes: time, shared directory, logins between nodes, cluster file."""
