"""Sum up what the docker engine reports while it pulls or pushes the layers of an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DONE = ("Pull complete", "Already exists", "Layer already exists", "Pushed", "Mounted from")


class Layers:
    """The layers of one image: how many are there, and how many bytes of them."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._layers: dict[str, tuple[int, int, bool]] = {}

    def heard(self, message: Mapping[str, Any]) -> str:
        """Take one message of the engine; return the state in one line."""
        layer, status = str(message.get("id") or ""), str(message.get("status") or "")
        done = status.startswith(_DONE)
        detail = message.get("progressDetail") or {}
        sized = isinstance(detail, Mapping) and isinstance(detail.get("total"), int)
        if layer and (done or sized or layer in self._layers):
            now, total, _ = self._layers.get(layer, (0, 0, False))
            # An engine extracts a layer after its download, and counts its bytes from the beginning again.
            if sized and status in ("Downloading", "Pushing"):
                now, total = int(detail.get("current") or 0), max(total, int(detail["total"]))
            self._layers[layer] = (total if done else now, total, done)
        return str(self)

    def __str__(self) -> str:
        if not self._layers:
            return self._verb
        ended = sum(done for _, _, done in self._layers.values())
        now, total = (sum(layer[at] for layer in self._layers.values()) for at in (0, 1))
        sizes = f", {now / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
        return f"{self._verb}: {ended} of {len(self._layers)} layers{sizes}"
