"""``time-sync``: one time service per node, and clocks that agree."""
