"""What docker reports while it pulls or pushes, as one line."""

from __future__ import annotations

from clusterctl.images.layers import Layers


def test_bytes_and_layers_add_up_and_an_extraction_does_not_count_again() -> None:
    layers = Layers("pulling debian:bookworm")
    assert (
        layers.heard({"status": "Pulling from library/debian", "id": "bookworm"}) == "pulling debian:bookworm"
    )
    layers.heard({"status": "Already exists", "progressDetail": {}, "id": "a"})
    layers.heard(
        {"status": "Downloading", "progressDetail": {"current": 10**6, "total": 4 * 10**6}, "id": "b"}
    )
    said = layers.heard(
        {"status": "Downloading", "progressDetail": {"current": 1, "total": 6 * 10**6}, "id": "c"}
    )
    assert said == "pulling debian:bookworm: 1 of 3 layers, 1 of 10 MB"
    layers.heard({"status": "Extracting", "progressDetail": {"current": 5, "total": 4 * 10**6}, "id": "b"})
    said = layers.heard({"status": "Pull complete", "progressDetail": {}, "id": "b"})
    assert said == "pulling debian:bookworm: 2 of 3 layers, 4 of 10 MB"
