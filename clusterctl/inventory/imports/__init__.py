"""Inventories of other tools, read into what an inventory.yaml can say; nothing is run and nothing contacted."""
