"""The wire: running commands and moving files on a node, over SSH or on this machine."""
