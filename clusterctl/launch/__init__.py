"""Starting a program as ranks on the nodes, and knowing what became of each."""
