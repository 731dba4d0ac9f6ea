"""Command line: commands, options, exit codes. Large modules are imported only when a command runs."""
