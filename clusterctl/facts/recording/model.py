"""The names of the files of a recording; ``clusterctl/documents/recording.py`` has the manifest's schema."""

from __future__ import annotations

MANIFEST = "record.json"
INVENTORY = "inventory.json"
REPORT = "report.json"
EARLIER = "earlier.json"
SCRUBBED = "scrubbed.txt"
