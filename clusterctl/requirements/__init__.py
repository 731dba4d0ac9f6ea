"""What a node must be: one module per requirement, each judging facts and proposing steps with their undo."""
