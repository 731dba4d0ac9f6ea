"""Print where a C or C++ compiler finds collective_core: `python -m collective_core --prefix`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Print the directory that has include/, lib/, lib/cmake/ and lib/pkgconfig/."""
    parser = argparse.ArgumentParser(prog="python -m collective_core", description=__doc__)
    parser.add_argument(
        "--prefix", action="store_true", required=True,
        help="print the directory with include, lib, lib/cmake and lib/pkgconfig",
    )  # fmt: skip
    parser.parse_args()
    sys.stdout.write(f"{Path(__file__).parent}\n")


main()
