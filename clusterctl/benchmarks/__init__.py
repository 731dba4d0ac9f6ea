"""Define the benchmarks: the command line of each and the parser of its output."""
