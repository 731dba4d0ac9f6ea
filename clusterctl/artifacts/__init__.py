"""Docker lines, hostfiles, command lines and configuration files, as pure functions from values to text."""
