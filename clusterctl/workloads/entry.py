"""How a program here runs on a rank: where it hangs is in its log, and one that fails keeps nobody waiting."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from collections.abc import Callable

from clusterctl.workloads import ranks

EXIT_NO_PLACE = 4
"""The launcher gave this process no place among the ranks, or one that this node cannot fill."""


def enter(work: Callable[[ranks.Place], int], timeout_s: float) -> int:
    """Run the work in this rank's place and return its exit status, 0; with any other the process ends here.

    ``timeout_s`` is how long whoever started the rank waits for it.
    """
    faulthandler.enable()
    # Just before whoever started this gives up: where a rank hangs is then in its log.
    faulthandler.dump_traceback_later(0.9 * timeout_s)
    try:
        status = work(ranks.read_place(os.environ))
    except ranks.RankError as error:
        sys.stderr.write(f"{socket.gethostname()}: {error}\n")
        status = EXIT_NO_PLACE
    finally:
        faulthandler.cancel_dump_traceback_later()
    if status != 0:
        # The other ranks may wait inside a collective; no destructor of the process group may wait with them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status
