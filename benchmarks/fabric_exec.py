"""The bare fabric rival: one connection and one exec of a given script per node, nothing parsed.

python fabric_exec.py NODES SCRIPT   (NODES: lines of "address port user key"; prints how many answered)
"""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fabric

WORKERS = 64


def main() -> None:
    """Run the script everywhere, as many at once as clusterctl does."""
    nodes = [line.split() for line in Path(sys.argv[1]).read_text().splitlines()]
    command = f"sh -c {shlex.quote(Path(sys.argv[2]).read_text())}"

    def one(node: list[str]) -> bool:
        address, port, user, key = node
        settings = {"key_filename": key, "allow_agent": False, "look_for_keys": False, "timeout": 60}
        with fabric.Connection(address, user=user, port=int(port), connect_kwargs=settings) as connection:
            return " done " in connection.run(command, hide=True, in_stream=False, warn=True).stdout

    with ThreadPoolExecutor(WORKERS) as pool:
        print(sum(pool.map(one, nodes)))


if __name__ == "__main__":
    main()
