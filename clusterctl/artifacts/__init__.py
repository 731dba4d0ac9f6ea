"""Render docker lines, hostfiles, command lines and configuration files, as pure functions."""
