"""Select nodes as ``--limit`` names them: node sets, groups, wildcards and exclusions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from clusterctl.errors import UsageError
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Inventory

EXCLUDES = "!"
_WILDCARDS = frozenset("*?")


def limited(inventory: Inventory, texts: str | Sequence[str] | None, *, option: str = "--limit") -> Inventory:
    """Keep only the nodes that the texts select (None: all); move the others to ``beyond``.

    A text is a node set whose names may be nodes, groups or wildcards (``gpu*``). ``!`` before a name excludes it; if
    every name excludes, all other nodes are kept. Raise UsageError for a malformed text, a name that matches
    nothing, or a selection without nodes; it names ``option``, by which the texts were given.
    """
    if texts is None:
        return inventory
    given = (texts,) if isinstance(texts, str) else texts
    try:
        names = dict.fromkeys(name for text in given for name in nodeset.expand(text))
    except nodeset.NodeSetError as error:
        raise UsageError(f"{option}: {error}", hint=error.hint) from None
    wanted = [name for name in names if not name.startswith(EXCLUDES)]
    unwanted = [name.removeprefix(EXCLUDES).strip() for name in names if name.startswith(EXCLUDES)]
    selection = _Selection(inventory, option)
    chosen = selection.nodes_of(wanted) if wanted else selection.names
    kept_names = chosen - selection.nodes_of(unwanted)
    if not kept_names:
        raise UsageError(
            f"{option} {','.join(given)[:200]!r} selects no node",
            hint=f"every node is excluded; {selection.known}",
        )
    kept = tuple(node for node in inventory.nodes if node.name in kept_names)
    beyond = (*inventory.beyond, *(node for node in inventory.nodes if node.name not in kept_names))
    return inventory.model_copy(update={"nodes": kept, "beyond": beyond})


class _Selection:
    """The names that an inventory's nodes can be selected by."""

    def __init__(self, inventory: Inventory, option: str) -> None:
        self._option = option
        self.names = frozenset(node.name for node in inventory.nodes)
        self.members: dict[str, set[str]] = {}
        for node in inventory.nodes:
            for group in node.groups:
                self.members.setdefault(group, set()).add(node.name)
        self._order = [node.name for node in inventory.nodes]

    @property
    def known(self) -> str:
        """Return the nodes and groups that exist, for a hint."""
        groups = f"; groups: {', '.join(sorted(self.members))}" if self.members else ""
        return f"nodes: {nodeset.fold(self._order)}{groups}"

    def nodes_of(self, words: Iterable[str]) -> frozenset[str]:
        """Return the names of the nodes that the words select; raise UsageError for words that match nothing."""
        found: set[str] = set()
        unknown: list[str] = []
        for word in words:
            matches = self._matches(word)
            found.update(matches)
            if not matches:
                unknown.append(word)
        if unknown:
            wildcard = next((word for word in unknown if not _WILDCARDS.isdisjoint(word)), None)
            if wildcard is not None:
                raise UsageError(
                    f"{self._option}: {wildcard[:200]!r} matches no node or group of the inventory",
                    hint=self.known,
                )
            close = get_close_matches(unknown[0], [*self.names, *self.members], n=1)
            raise UsageError(
                f"{self._option}: {nodeset.fold(unknown)[:200]} is not a node or group of the inventory",
                hint=f"did you mean {close[0]}? {self.known}" if close else self.known,
            )
        return frozenset(found)

    def _matches(self, word: str) -> Collection[str]:
        if word in self.names:
            return (word,)
        if _WILDCARDS.isdisjoint(word):
            return self.members.get(word, ())
        # Brackets are ranges of node sets and were expanded; only * and ? remain as wildcards.
        groups = (members for group, members in self.members.items() if fnmatchcase(group, word))
        return {name for name in self.names if fnmatchcase(name, word)}.union(*groups)
