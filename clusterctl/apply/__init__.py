"""Apply a plan to the nodes, with a journal entry before each change, and undo it."""
