"""Open a session with the running containers instead of with their nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.cli.session import Session


def refuse_inventory(inventory: Path | None) -> None:
    """Raise UsageError for an inventory together with ``--containers``."""
    if inventory is not None:
        raise UsageError(
            "--containers and an inventory cannot be combined: 'up' wrote an inventory of the containers",
            hint="leave one out",
        )


def containers_session(
    run_name: str | None, runs: Path | None, *, limit: Sequence[str] | None = None, fanout: int | None = None
) -> Session:
    """Return a session with the containers of a run, or of the only run that has running containers.

    Raise LaunchError if no run has running containers, UsageError if several have and no run is named.
    """
    from clusterctl.cli.session import open_session
    from clusterctl.containers import record as containers_record
    from clusterctl.transport.ssh.target import KNOWN_HOSTS_VARIABLE

    run = containers_record.those_up(run_name, runs)
    # The host keys of the containers are in the run's own file; the variable names the file of the nodes.
    os.environ.pop(KNOWN_HOSTS_VARIABLE, None)
    return open_session(run.path / containers_record.INVENTORY, limit=limit, fanout=fanout)


def with_hosts(session: Session, runs: Path | None) -> Session:
    """Return the session of containers with the facts of their hosts, as ``up`` read them."""
    from dataclasses import replace

    from clusterctl.containers import record as containers_record
    from clusterctl.errors import ClusterctlError
    from clusterctl.facts.document import fleet_from_document

    try:
        hosts = fleet_from_document(containers_record.those_up(None, runs).read("facts"))
    except ClusterctlError:
        # The containers run, whatever became of the record of their start; then only their side is shown.
        hosts = {}
    return replace(session, hosts=hosts)
