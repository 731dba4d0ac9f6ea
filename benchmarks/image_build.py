"""The CPU image with collective_core inside: a build with a warm layer cache, and what another version rebuilds.

The base is a plain Debian that debootstrap makes; needs root and a docker engine.

    python benchmarks/image_build.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import debian_base
import installed_core
from side_by_side import Goal, report

from clusterctl import core_wheel
from clusterctl.images import build, engine, library
from clusterctl.images.build import Built
from clusterctl.images.packages import PackageReference

TAG = "clusterctl-benchmark:image-build"


def main() -> int:
    """Build cold, warm and with another version; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with engine.connect() as client, tempfile.TemporaryDirectory() as folder:
        base = debian_base.ensure(client)

        def built(version: str) -> Built:
            place = Path(folder) / version
            if not place.is_dir():
                place.mkdir()
                core_wheel.packed(installed_core.distribution(place, version)).write(Path(folder))
            (path,) = Path(folder).glob(f"collective_core-{version}-*.whl")
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            request = build.BuildRequest(
                library=library.load("ccore"),
                base=base,
                tag=TAG,
                packages=(PackageReference("wheel", str(path), digest),),
            )
            return build.build(client, request, progress=lambda _line: None)

        try:
            first = built("1.0.0")
            print(
                f"first build: {first.duration_s:.1f} s (without any cached layer only on the engine's first)"
            )
            warm = [built("1.0.0").duration_s for _ in range(rounds)]
            other = [built(f"1.0.{number}") for number in range(1, rounds + 1)]
        finally:
            client.images.remove(TAG, force=True)
    changed = max(
        sum(1 for layer in image.layers if layer not in first.layers)
        + sum(1 for layer in first.layers if layer not in image.layers)
        for image in other
    )
    goals = (
        Goal("nothing changed, median", statistics.median(warm), 20, False, "s"),
        Goal(
            "another version, median", statistics.median(image.duration_s for image in other), 20, False, "s"
        ),
        Goal("layers that another version rebuilds", changed / 2, 1, False),
    )
    return report(f"image build, warm layer cache, {rounds} rounds", (), goals)


if __name__ == "__main__":
    sys.exit(main())
