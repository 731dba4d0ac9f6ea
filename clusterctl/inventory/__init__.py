"""The inventory: reading a YAML file into a frozen model of nodes and settings."""
