"""Run commands and transfer files on a node, over SSH or on this machine."""
