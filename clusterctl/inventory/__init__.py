"""The inventory: one YAML file becomes a frozen model of nodes and settings."""
