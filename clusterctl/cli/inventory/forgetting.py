"""``inventory forget-host-keys``: remove the recorded host keys of reinstalled nodes."""

from __future__ import annotations

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.errors import UsageError
from clusterctl.text.wording import counted


def forget_host_keys(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Remove the recorded host keys of nodes that were reinstalled; contact no node.

    The nodes are named with --limit. All other lines of the files stay as they are. On a terminal, the next command
    that connects to the nodes shows their new keys and asks whether to record them.

    Exit code 0: the keys were removed, or there were none.
    """
    from pathlib import Path

    from clusterctl.cli.named_inventory import named
    from clusterctl.documents.inventory import ForgottenFile, HostKeysForgotten
    from clusterctl.inventory import nodeset
    from clusterctl.inventory.limit import limited
    from clusterctl.transport.ssh import config, host_keys
    from clusterctl.transport.ssh.target import names_in_known_hosts

    if not limit:
        raise UsageError(
            "no node was named",
            hint="name the reinstalled nodes: --limit 'gpu[01-16]'; all of them: --limit '*'",
        )
    chosen = limited(named(inventory, "using"), limit)
    nodes = [node for node in chosen.nodes if node.connection == "ssh"]
    places = names_in_known_hosts(nodes, config.lookup_in(config.config_files()))
    files: list[ForgottenFile] = []
    had: set[str] = set()
    for file, names in places.items():
        found = host_keys.forget(Path(file), names)
        removed = tuple(node for name in found.names for node in names[name])
        had |= set(removed)
        if removed or found.patterns:
            files.append(
                ForgottenFile(file=file, nodes=removed, lines=found.lines, pattern_lines=found.patterns)
            )
    without = tuple(node.name for node in nodes if node.name not in had)
    if as_json:
        console.emit_json(HostKeysForgotten(files=tuple(files), without_key=without).document())
        return
    for one in files:
        if one.nodes:
            lines = counted(one.lines, "line")
            console.data(f"{one.file}: removed {lines}, the host keys of {nodeset.fold(one.nodes)}")
        for number in one.pattern_lines:
            console.talk(
                f"warning: {one.file}:{number} covers these nodes by a wildcard, and stays; edit it by hand"
            )
    if without:
        console.data(f"no recorded host key: {nodeset.fold(without)}")
