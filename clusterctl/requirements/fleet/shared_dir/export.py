"""Decide for ``shared-dir`` to which clients the server exports a directory, and whether it does; pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from clusterctl import resources
from clusterctl.requirements.fleet.addresses import literal, source_addresses
from clusterctl.requirements.steps import Command

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

EXPORTS = "/etc/exports.d/clusterctl.exports"


def clients(node: Node, folder: str, fleet: Fleet, facts: NodeFacts) -> tuple[str, ...]:
    """Return the addresses that may mount the directory: only those of the inventory's other nodes.

    While a node has no facts its further addresses are unknown, so existing exports are kept.
    """
    found: list[str] = []
    unseen = False
    for other in fleet.nodes:
        if other.name == node.name or other.requirements.shared_dir.server != node.name:
            continue
        seen = fleet.facts.get(other.name) or fleet.earlier.get(other.name)
        unseen = unseen or seen is None
        found += source_addresses(other, seen) or [other.address]
    return tuple(dict.fromkeys([*found, *(_named(facts, folder, own=True) if unseen else [])]))


def _named(facts: NodeFacts, folder: str, *, own: bool) -> list[str]:
    """Return the clients of a directory in clusterctl's exports file (``own``), or in all other files."""
    lines = [entry.text.split() for entry in facts.nfs.exports if (entry.path == EXPORTS) is own]
    return [word.partition("(")[0] for words in lines if words[0].strip('"') == folder for word in words[1:]]


def options(*, squash_root: bool) -> str:
    """Return the options of each export that clusterctl makes."""
    return f"rw,sync,no_subtree_check,{'root_squash' if squash_root else 'no_root_squash'}"


def line(folder: str, addresses: tuple[str, ...], *, squash_root: bool) -> str:
    """Return the line for exports(5)."""
    return " ".join((folder, *(f"{address}({options(squash_root=squash_root)})" for address in addresses)))


def is_written(facts: NodeFacts, wanted: str) -> bool:
    """Return whether clusterctl's exports file has exactly this line."""
    found = [entry.text for entry in facts.nfs.exports if entry.path == EXPORTS]
    return [" ".join(text.split()) for text in found] == [wanted]


def exported_to(facts: NodeFacts, folder: str) -> tuple[str, ...]:
    """Return the clients to which a directory is exported now."""
    return tuple(e.text.partition("(")[0] for e in facts.nfs.exported if e.path == folder)


def admits(facts: NodeFacts, folder: str, node: Node, client: NodeFacts) -> bool:
    """Return whether a server exports a directory to a node: by address, name, network or ``*``."""
    own = [literal(address) for address in source_addresses(node, client)]
    for name in exported_to(facts, folder):
        if name in ("*", node.address, node.name) or literal(name) in [a for a in own if a is not None]:
            return True
        try:
            network = ipaddress.ip_network(name, strict=False)
        except ValueError:
            continue
        if any(address is not None and address in network for address in own):
            return True
    return False


def elsewhere(facts: NodeFacts, folder: str) -> tuple[str, ...]:
    """Return the other files that export the directory as well."""
    return tuple(
        dict.fromkeys(
            entry.path
            for entry in facts.nfs.exports
            if entry.path != EXPORTS and entry.text.split()[0].strip('"') == folder
        )
    )


def export_steps(
    facts: NodeFacts, folder: str, addresses: tuple[str, ...], *, squash_root: bool
) -> tuple[Command, ...]:
    """Return the steps that export the directory to these clients, and withdraw other exports of our file.

    They run before the file is rewritten, because the old file shows which exports are ours to withdraw.
    """
    script, wanted = resources.text("templates", "apply", "nfs-export.sh"), options(squash_root=squash_root)

    def run(action: str, of: str, *words: str, given: str = wanted) -> tuple[str, ...]:
        return ("sh", "-c", script, "nfs-export", action, of, given, *words)

    others, exported = _named(facts, folder, own=False), exported_to(facts, folder)
    # The site's own exports keep their options, and an undo does not withdraw them.
    may = [f"{'=' if name in others and name in exported else '+'}{name}" for name in addresses]
    gone = [f"-{name}" for name in _former(facts, folder) if name not in addresses]
    # An undo keeps clients that could mount before, and restores those that were withdrawn or got other options.
    before = _options_before(facts, folder) or wanted
    new = [f"+{name}" for name in addresses if name not in exported]
    again = [f"-{name}" for name in _former(facts, folder) if name not in addresses or before != wanted]
    former = {
        entry.text.split()[0]: _former(facts, entry.text.split()[0])
        for entry in facts.nfs.exports
        if entry.path == EXPORTS and entry.text.split()[0] != folder
    }
    # No guard: a freshly started server exports on its own, but undo must still wait for the clients and withdraw
    # the directory before that server is stopped.
    return (
        *(
            Command(
                f"Stop exporting {of}",
                run("export", of, *(f"-{name}" for name in names)),
                undo=run(
                    "export", of, *(f"+{name}" for name in names), given=_options_before(facts, of) or wanted
                ),
                timeout_s=120.0,
            )
            for of, names in former.items()
            if names
        ),
        Command(
            f"Export {folder} to {len(addresses)} addresses",
            run("export", folder, *may, *gone),
            undo=run("withdraw", folder, *new, *again, given=before),
            timeout_s=120.0,
        ),
    )


def _former(facts: NodeFacts, folder: str) -> list[str]:
    """Return the clients to which only our file exports a directory."""
    others, exported = _named(facts, folder, own=False), exported_to(facts, folder)
    named = dict.fromkeys(_named(facts, folder, own=True))
    return [name for name in named if name in exported and name not in others]


def _options_before(facts: NodeFacts, folder: str) -> str | None:
    """Return the options that our file gives the clients of a directory; None when it names no clients."""
    lines = [entry.text.split() for entry in facts.nfs.exports if entry.path == EXPORTS]
    found = [word for words in lines if words[0] == folder for word in words[1:]]
    return found[0].partition("(")[2].removesuffix(")") if found else None
