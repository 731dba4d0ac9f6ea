"""Run the launcher on the launching node in a thread of its own, and time it."""

from __future__ import annotations

import shlex
import threading
import time

from clusterctl import log
from clusterctl.errors import ClusterctlError
from clusterctl.launch.base import LaunchPlan, start_script
from clusterctl.launch.ranklog import RankLog
from clusterctl.transport.base import Completed, Failure, FailureKind, Transport, TransportError

_LOG = log.get(__name__)
END_GRACE_S = 5.0
# The controller ends the launch at the deadline; if the controller died, the node does so this much later.
_BACKSTOP_S = 60.0
# Limit of the output of all ranks together. NCCL's log is about 100 KiB per rank at eight ranks per node and grows
# with the number of peers: an alltoall logs a line per channel and peer.
_LAUNCH_BYTES = 64 << 20
_RANK_BYTES = 2 << 20
# A program of the user may show its progress for days.
_PROGRAM_FACTOR = 8


class RunningLauncher:
    """Hold a launcher that runs: ``ended`` is set at its end, and ``answer`` is how it ended, or None before."""

    def __init__(self, transport: Transport, plan: LaunchPlan, ranklog: RankLog) -> None:
        """Start the launcher."""
        self.ended = threading.Event()
        self.answer: Completed | Failure | None = None
        self.began = time.monotonic()
        """When the launcher started, by the monotonic clock."""
        self._stopped: float | None = None
        self._transport = transport
        self._plan = plan
        self._ranklog = ranklog
        self._thread = threading.Thread(target=self._run, name="clusterctl-launch", daemon=True)
        self._thread.start()

    @property
    def duration_s(self) -> float:
        """Return how long the launcher ran, without the search for remaining processes that follows a failure."""
        return (self._stopped or time.monotonic()) - self.began

    def close(self) -> None:
        """Wait a short time for the end, and close the connection."""
        self.ended.wait(END_GRACE_S)
        self._transport.close()
        self._thread.join(END_GRACE_S)

    def _run(self) -> None:
        try:
            for name, data in self._plan.files.items():
                self._transport.put(data, f"{self._plan.directory}/{name}", mode=0o600)
            self.began = time.monotonic()
            self.answer = self._launch()
        except TransportError as error:
            self.answer = error.failure
        except ClusterctlError as error:
            self.answer = Failure(FailureKind.ERROR, error.message, error.hint)
        finally:
            self._stopped = time.monotonic()
            self.ended.set()

    def _launch(self) -> Completed:
        plan, transport = self._plan, self._transport
        _LOG.debug("%s: %s", transport.node, shlex.join(plan.argv))
        limit_s = plan.timeout_s + _BACKSTOP_S
        return transport.run(
            ("sh", "-s"),
            stdin=start_script(plan, limit_s),
            # Later than the node's own deadline and the cleanup that follows it.
            timeout_s=limit_s + _BACKSTOP_S,
            on_line=self._ranklog.line,
            max_output_bytes=(_LAUNCH_BYTES + plan.np * _RANK_BYTES)
            * (_PROGRAM_FACTOR if plan.foreign else 1),
        )
