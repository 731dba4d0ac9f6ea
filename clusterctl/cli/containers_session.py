"""A session with the containers that are up, in place of the nodes that they are on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.cli.session import Session


def refuse_inventory(inventory: Path | None) -> None:
    """Raise UsageError for an inventory beside ``--containers``."""
    if inventory is not None:
        raise UsageError("--containers has an inventory of its own", hint="leave -i out, or --containers")


def containers_session(
    run_name: str | None, runs: Path | None, *, limit: Sequence[str] | None = None, fanout: int | None = None
) -> Session:
    """Return a session with the containers of a run, or of the only run that has some up.

    Raise LaunchError when none is up, UsageError when several are and none is named.
    """
    from clusterctl.cli.session import open_session
    from clusterctl.launch import containers_record
    from clusterctl.transport.ssh_config import KNOWN_HOSTS_VARIABLE

    run = containers_record.those_up(run_name, runs)
    # Its host keys are those of this up, pinned in its own file; the variable speaks of nodes.
    os.environ.pop(KNOWN_HOSTS_VARIABLE, None)
    return open_session(run.path / containers_record.INVENTORY, limit=limit, fanout=fanout)
