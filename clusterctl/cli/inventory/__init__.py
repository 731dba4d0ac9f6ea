"""``inventory``: write, check, show and import inventories."""
