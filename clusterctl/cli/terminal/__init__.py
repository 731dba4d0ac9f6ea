"""What the command line does with a terminal: colour, highlighting, and live progress."""
