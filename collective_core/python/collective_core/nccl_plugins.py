"""NCCL's net plugin and tuner plugin: where they are, and the variables that switch them on.

`python -m collective_core.nccl_plugins` prints the variables as export lines for a shell.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from collective_core.errors import LibraryNotFoundError
from collective_core.locations import HINT, library_path

LIBRARY_NAME = "libnccl-net-ccore.so"


def plugin_path() -> Path:
    """Return the path of the library that holds both plugins; raises LibraryNotFoundError if it is not built."""
    path = library_path().parent / LIBRARY_NAME
    if not path.is_file():
        raise LibraryNotFoundError(f"no NCCL plugins at {path}: {HINT}")
    return path


def plugin_environment(*, net: bool = True, tuner: bool = True) -> dict[str, str]:
    """Return the variables that make NCCL load the plugins; they must be set before NCCL's first communicator."""
    path = str(plugin_path())
    variables = {"NCCL_NET_PLUGIN": path} if net else {}
    if tuner:
        variables["NCCL_TUNER_PLUGIN"] = path
    elif net:
        variables["NCCL_TUNER_PLUGIN"] = "none"  # else NCCL takes the tuner of the net plugin's library
    return variables


def main(arguments: Sequence[str] | None = None) -> int:
    """Print export lines."""
    parser = argparse.ArgumentParser(prog="python -m collective_core.nccl_plugins", description=__doc__)
    parser.add_argument("--no-net", action="store_true", help="leave the network to NCCL")
    parser.add_argument("--no-tuner", action="store_true", help="leave the choice of algorithms to NCCL")
    chosen = parser.parse_args(arguments)
    variables = plugin_environment(net=not chosen.no_net, tuner=not chosen.no_tuner)
    sys.stdout.write("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
