"""How long ranks may wait for a call that another rank has not made, by the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass

from collective_core import environment


@dataclass(frozen=True, slots=True)
class Limits:
    """After how many seconds of waiting a rank warns, and after how many it ends the process set with an error."""

    warn_s: float
    end_s: float


def limits(deadline_s: float) -> Limits:
    """Return those of this process; `deadline_s` ends every wait. Raises CollectiveCoreError for bad settings."""
    warn_s = environment.number("CCORE_STALL_WARNING_S", 60, 0, 1e9)
    if environment.flag("CCORE_STALL_CHECK_DISABLE", fallback=False) or warn_s == 0:
        warn_s = math.inf
    end_s = environment.number("CCORE_STALL_SHUTDOWN_S", 0, 0, 1e9)
    return Limits(warn_s, min(end_s, deadline_s) if end_s > 0 else deadline_s)
