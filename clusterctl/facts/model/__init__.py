"""The model of a node's facts: one module per kind of device or setting, joined by ``NodeFacts``."""
