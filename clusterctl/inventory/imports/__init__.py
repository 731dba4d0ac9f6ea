"""Conversion of other tools' inventories to inventory.yaml, without running a program or contacting a node."""
