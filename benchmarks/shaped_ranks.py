"""Ranks of collective_core as processes in two shaped namespaces; each prints what it measured as JSON, last.

For scripts that have tests/support on their path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shaped_networks import Networks


def run_ranks(
    networks: Networks,
    program: Sequence[str],
    sides: Sequence[int],
    settings: Callable[[int], Mapping[str, str]],
    deadline_s: float,
) -> list[Any]:
    """Run a Python program as one rank for each entry of ``sides`` (its namespace); return what each printed.

    ``settings(rank)`` is put into that rank's environment, beside what all need to meet. SystemExit when one fails.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CCORE_") or k == "CCORE_LIBRARY"}
    running = [
        subprocess.Popen(
            (*networks.inside(side), sys.executable, *program),
            env={
                **inherited,
                "RANK": str(rank),
                "WORLD_SIZE": str(len(sides)),
                "CCORE_ROOT_ADDR": networks.address(0),
                "CCORE_JOB_SECRET": f"benchmark {os.getpid()}",
                "CCORE_SOCKET_IFNAME": "=" + ",".join(networks.rails),
                **settings(rank),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, side in enumerate(sides)
    ]
    printed = []
    try:
        for process in running:
            output, _ = process.communicate(timeout=deadline_s)
            if process.returncode != 0:
                raise SystemExit(f"a rank ended with status {process.returncode}: {output[-2000:]}")
            printed.append(json.loads(output.splitlines()[-1]))
    except subprocess.TimeoutExpired as late:
        raise SystemExit(f"a rank took longer than {deadline_s:g} s") from late
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return printed
