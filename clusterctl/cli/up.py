"""``up``: start the same container on each node, reachable by SSH, and write an inventory of the containers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.failed_launch import say_cause
from clusterctl.cli.named_inventory import LocalOption, to_change
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress
from clusterctl.errors import ConfigError
from clusterctl.inventory.user_paths import at_home, is_there
from clusterctl.report.text.table import columns
from clusterctl.text import user_files
from clusterctl.text.grouping import grouped

if TYPE_CHECKING:
    from clusterctl.containers.up import Container, UpFailed
    from clusterctl.documents.explain import KnownCause
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.rundir import RunDir


def up(
    inventory: cli.InventoryArgument = None,
    *,
    local: LocalOption = False,
    limit: cli.LimitOption = None,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="Image instead of the inventory's container.image."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Port of the containers' SSH servers.")
    ] = 2222,
    volume: Annotated[
        list[str] | None,
        typer.Option("--volume", metavar="NODE:CONTAINER[:ro]", help="An additional mount; repeatable."),
    ] = None,
    privileged: Annotated[
        bool,
        typer.Option(
            "--privileged",
            help="Run privileged containers, with full access to the host; not needed for RDMA.",
        ),
    ] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Start a container on every node, with SSH between them.

    'bench --containers' and 'exec' use them. All start, or everything is rolled back.

    Exit code 0: all started; 5: each node that failed is unreachable; 10: a container cannot be started.
    """
    from clusterctl.artifacts import shell
    from clusterctl.cli.bench.run import terminable
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.session import open_session
    from clusterctl.containers import up as containers_up
    from clusterctl.documents.containers import StartedContainer, Up
    from clusterctl.inventory.recorded import recorded
    from clusterctl.rundir import RunDir, default_root

    runs = runs or default_root(inventory)
    cli.require_image(image)
    cli.require_volumes(volume or ())
    chosen = to_change(inventory, verb="up", local=local)
    session = open_session(chosen, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    wanted = _with_wishes(session.inventory, image, tuple(volume or ()), privileged)
    run = RunDir.create("up", runs)
    run.write("inventory", recorded(wanted))
    try:
        left = "The containers that were started have been removed again."
        with (
            interrupt.explained(left, "To start them"),
            terminable(),
            Progress("Starting containers", done="Started the containers") as progress,
        ):
            found = containers_up.bring_up(
                wanted, session.connected(), run, port=port, fanout=session.fanout,
                jump_known_hosts=_jump_known_hosts(wanted.nodes), progress=progress.say,
                watch=LiveNodes(progress, once=False),
            )  # fmt: skip
    except containers_up.UpFailed as error:
        raise typer.Exit(_say_failed(error, run, as_json)) from None
    document = Up(
        run=run.id,
        inventory=str(run.path / "containers.yaml"),
        nodes=tuple(
            StartedContainer(
                name=one.node.name, address=one.node.address, port=one.node.port,
                container=one.started.container_id, memlock=one.memlock,
                docker_run=shell.line(one.started.line), notes=tuple(one.started.notes),
            )
            for one in found
        ),
    ).document()  # fmt: skip
    run.write("launch", document)
    if as_json:
        console.emit_json(document)
        return
    _say(found, run)


def _with_wishes(
    inventory: Inventory, image: str | None, volumes: tuple[str, ...], privileged: bool
) -> Inventory:
    """Return the inventory with the container options of the command line."""

    def wished(node: Node) -> Node:
        container = node.container
        said: dict[str, Any] = {}
        if image is not None:
            said["image"] = image
        if volumes:
            said["volumes"] = (*container.volumes, *volumes)
        if privileged:
            said["privileged"] = True
        # model_copy keeps the record of which settings were set: those of a node take precedence over defaults.
        return node.model_copy(update={"container": container.model_copy(update=said)})

    return inventory.model_copy(update={"nodes": tuple(wished(node) for node in inventory.nodes)})


def _jump_known_hosts(nodes: tuple[Node, ...]) -> str:
    """Return the known_hosts lines from the files of those nodes that are reached through a jump host."""
    import os

    from clusterctl.transport.ssh.target import KNOWN_HOSTS_VARIABLE

    files = dict.fromkeys(
        os.environ.get(KNOWN_HOSTS_VARIABLE) or node.known_hosts or "~/.ssh/known_hosts"
        for node in nodes
        if node.proxy_jump
    )
    return "".join(_known_hosts(at_home(file)) for file in files)


def _known_hosts(path: Path) -> str:
    if not is_there(path):
        return ""
    try:
        return user_files.read_text(path, user_files.KNOWN_HOSTS_BYTES, errors="replace")
    except OSError as error:
        raise ConfigError(
            f"known_hosts {path} cannot be read: {error.strerror}",
            hint=user_files.hint_of(error, "set `known_hosts` in the inventory to another file"),
        ) from None


def _say(found: tuple[Container, ...], run: RunDir) -> None:
    from clusterctl.artifacts import shell
    from clusterctl.inventory import nodeset

    lines = grouped((shell.line(one.started.line), one.node.name) for one in found)
    for line, names in lines.items():
        console.data(f"# {nodeset.fold(names)}\n{line}")
    rows = [
        (one.node.name, f"{one.node.address}:{one.node.port}", one.started.container_id[:12], one.memlock)
        for one in found
    ]
    console.data(columns(("node", "ssh", "container", "memlock KiB"), rows, left=(0, 1, 2)))
    notes = grouped((note, one.node.name) for one in found for note in one.started.notes)
    for note, names in notes.items():
        console.talk(f"note: {nodeset.fold(names)}: {note}")
    low = [one.node.name for one in found if one.memlock != "unlimited"]
    if low:
        console.talk(
            f"note: memlock is limited on {nodeset.fold(low)}: RDMA cannot register more memory than that; "
            "container.memlock: -1 removes the limit if the engine permits it"
        )
    console.talk(f"inventory of the containers: {run.path}/containers.yaml")
    console.talk("Next: clusterctl bench --containers")
    console.talk("Next: clusterctl exec -- COMMAND")
    console.talk("Next: clusterctl down  # removes the containers")


def _say_failed(error: UpFailed, run: RunDir, as_json: bool) -> int:
    from clusterctl.cli.session import say_failures
    from clusterctl.documents.containers import NotStarted, Up
    from clusterctl.inventory import nodeset

    unreachable = all(not failure.kind.answered for failure in error.failures.values())
    code = 5 if unreachable else error.exit_code
    failed = tuple(NotStarted(name=name, error=f.message, hint=f.hint) for name, f in error.failures.items())
    cause = _cause_of(error, run)
    document = Up(run=run.id, failed=failed, left=tuple(sorted(error.left)), cause=cause).document()
    run.write("launch", document)
    if as_json:
        console.emit_json(document)
    say_failures(error.failures)
    if cause is not None:
        say_cause(cause, run)
    if error.left:
        left = nodeset.fold(list(error.left))
        console.error(f"containers may still run on {left}; to remove them: clusterctl down --run {run.id}")
    elif error.stage == "looking":
        console.error("no container was started, and no node was changed")
    else:
        console.error("all changes were rolled back on the nodes")
    return code


def _cause_of(error: UpFailed, run: RunDir) -> KnownCause | None:
    """Keep what each node reported as a log of the run, and return the known cause in it."""
    from clusterctl.report.known_errors.run_logs import cause_in
    from clusterctl.rundir import own_file, write_atomically

    logs = run.folder("logs")
    for name, failure in error.failures.items():
        log = logs / f"{name}.log"
        with own_file(log):
            write_atomically(log, f"{failure.message}\n".encode(errors="replace"))
    return cause_in(run.path, node_of=lambda log: Path(log).stem)
