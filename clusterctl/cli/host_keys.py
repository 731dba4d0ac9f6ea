"""Ask once, before the first contact, whether the host keys of new nodes shall be recorded."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl import log
from clusterctl.cli import console
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.transport.connect import Connector
    from clusterctl.transport.ssh.host_keys import Remedies, ShownKey
    from clusterctl.transport.ssh.new_keys import NewKeys

_log = log.get(__name__)
FLAG = "--accept-new-host-keys"
_SHOWN = 64
"""The most fingerprints that a question lists."""


@dataclass(slots=True)
class NewHostKeys:
    """Record the host keys of nodes that no file has: on request (``accepts``), or after a person agreed."""

    connector: Connector
    nodes: Sequence[Node]
    fanout: int
    accepts: bool
    settled: bool = False

    def settle(self) -> None:
        """Contact the nodes without a recorded key, at the first call; nothing is sent to them after the key exchange.

        Raises ControllerFileError if a key cannot be recorded.
        """
        if self.settled or all(node.connection != "ssh" for node in self.nodes):
            return
        self.settled = True
        from clusterctl.transport.ssh.host_keys import described
        from clusterctl.transport.ssh.new_keys import stages

        session = self.connector.session()
        # Keys of nodes behind a jump host can be read only when the key of the jump host is known.
        for new in stages(session, self.nodes):
            found = self._read(new)
            if not found or not (self.accepts or _agreed(found)):
                continue
            recorded = session.policy.record(found)
            for shown in recorded:
                _log.info("%s: recorded its %s in %s", shown.where, described(shown), shown.files[0])
            for file, added in _by_file(recorded).items():
                console.talk(f"Recorded {_count(added)} in {file}: {_names(added)}")

    def _read(self, new: NewKeys) -> list[ShownKey]:
        from clusterctl.cli.terminal.progress import Progress

        with Progress("Reading new host keys", len(new.servers), "nodes") as progress:
            for _, node in new.servers:
                progress.start(node.name)
            return new.read(self.fanout, progress.advance)


def _agreed(found: Sequence[ShownKey]) -> bool:
    from clusterctl.cli.terminal import interrupt

    files = _by_file(found)
    console.error(f"{_count(found)}, not in {', '.join(files)}:")
    alike: dict[tuple[str, str], list[ShownKey]] = {}
    for shown in found:
        alike.setdefault((shown.key_type, shown.key), []).append(shown)
    rows = [(_names(same), same[0]) for same in alike.values()]
    limit = _SHOWN if len(rows) > _SHOWN + 1 else len(rows)
    width = min(30, max(len(names) for names, _ in rows[:limit]))
    from clusterctl.text.openssh.known_hosts import fingerprint

    for names, shown in rows[:limit]:
        console.error(f"  {names:{width}}  {shown.key_type}  {fingerprint(shown.key)}")
    if limit < len(rows):
        console.error(f"  ... and {len(rows) - limit} more")
    return interrupt.asked(f"Record {'it' if len(found) == 1 else 'them'}?")


def _count(keys: Sequence[ShownKey]) -> str:
    return counted(len(keys), "new host key")


def _names(keys: Sequence[ShownKey]) -> str:
    from clusterctl.inventory import nodeset

    jumps = [shown.where.partition(" (")[0] for shown in keys if shown.node is None]
    return ", ".join(
        filter(None, [*jumps, nodeset.fold(shown.node for shown in keys if shown.node is not None)])
    )


def _by_file(keys: Sequence[ShownKey]) -> dict[str, list[ShownKey]]:
    files: dict[str, list[ShownKey]] = {}
    for shown in keys:
        files.setdefault(shown.files[0], []).append(shown)
    return files


def remedies(inventory: Inventory, words: Sequence[str]) -> Remedies:
    """Return the commands for hints; ``words`` is the command line to repeat, without the program's name."""
    from clusterctl.cli import verbs
    from clusterctl.transport.ssh.host_keys import Remedies

    at = verbs.end_of_own(words)
    if at == len(words) and verbs.takes_a_program(words[0] if words else ""):
        at = 1
    where = () if inventory.source in (None, "inventory.yaml") else (str(inventory.source),)
    return Remedies(
        shlex.join(("clusterctl", *words[:at], FLAG, *words[at:])),
        shlex.join(("clusterctl", "inventory", "forget-host-keys", *where, "--limit")),
    )
