"""Making a plan true on the nodes, journalled before each change, and taking it back."""
