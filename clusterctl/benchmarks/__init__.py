"""What to measure: the command line of each benchmark and the parser of its output."""
