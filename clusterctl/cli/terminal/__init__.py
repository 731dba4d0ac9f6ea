"""What the command line does with a terminal: colour and live progress."""
