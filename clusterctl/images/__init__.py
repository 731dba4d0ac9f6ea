"""Container images: built with a collective library inside, pushed, and proven on every node and rank."""
