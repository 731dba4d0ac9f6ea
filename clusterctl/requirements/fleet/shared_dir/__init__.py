"""``shared-dir``: one directory at one path on all nodes."""
