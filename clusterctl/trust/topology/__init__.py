"""Describe how GPUs, switches, network cards and CPUs of a node are connected, and compare nodes."""
