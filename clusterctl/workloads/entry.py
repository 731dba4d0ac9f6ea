"""Run a workload on a rank: a hanging rank logs its stack, and a failing rank does not block the others."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from collections.abc import Callable

from clusterctl.workloads import places

EXIT_NO_PLACE = 4
"""Exit status of a rank that was placed wrongly, that this node cannot run, or that refuses another rank's value."""


def enter(work: Callable[[places.Place], int], timeout_s: float) -> int:
    """Run the work as this rank and return 0; for any other exit status the process ends here.

    ``timeout_s`` is the launch's deadline in seconds.
    """
    faulthandler.enable()
    # Just before the launch's deadline, so that a hanging rank's stack is in its log.
    faulthandler.dump_traceback_later(0.9 * timeout_s)
    try:
        status = work(places.read_place(os.environ))
    except places.RankError as error:
        sys.stderr.write(f"{socket.gethostname()}: {error}\n")
        status = EXIT_NO_PLACE
    finally:
        faulthandler.cancel_dump_traceback_later()
    if status != 0:
        # Skip destructors: that of the process group may block while other ranks wait inside a collective.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status
