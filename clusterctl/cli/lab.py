"""``lab``: start and remove virtual nodes for rehearsal."""

from __future__ import annotations

import logging
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl import log
from clusterctl.cli import console
from clusterctl.cli.options import JsonOption
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress
from clusterctl.report.text.table import columns
from clusterctl.rundir import LAB_FOLDER
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.lab import Lab, LabStatus

app = typer.Typer(
    help="Virtual nodes for rehearsal: QEMU guests or containers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class DriverName(str, Enum):
    """Name the drivers."""

    DOCKER = "docker"
    QEMU = "qemu"


DirectoryOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The lab's directory.")]
_DEFAULT_DIRECTORY = Path(LAB_FOLDER)


@app.command()
def up(
    *,
    driver: Annotated[
        DriverName,
        typer.Option(help="qemu: guests with their own kernel, PCIe and RDMA; docker: containers, faster."),
    ] = DriverName.QEMU,
    nodes: Annotated[int, typer.Option(min=1, max=16, help="Number of nodes.")] = 2,
    directory: DirectoryOption = _DEFAULT_DIRECTORY,
    mount: Annotated[
        list[str] | None,
        typer.Option(
            "--mount",
            metavar="HOST:GUEST[:ro]",
            help="Mount a directory of this machine on all nodes; repeatable.",
        ),
    ] = None,
    with_python: Annotated[
        bool,
        typer.Option("--with-python", help="Mount clusterctl's own Python into the containers, read-only."),
    ] = False,
    memory_mib: Annotated[int, typer.Option(metavar="MIB", min=512, help="Memory per guest.")] = 1280,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare", help="Start guests without the required packages, which bootstrap can then install."
        ),
    ] = False,
    engines: Annotated[
        bool, typer.Option("--engines", help="Give each container its own docker engine, for image and up.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start virtual nodes that answer SSH, and write their inventory."""
    from clusterctl import lab as labs

    _show_progress()
    options = labs.LabOptions(
        driver=driver.value,
        nodes=nodes,
        directory=directory,
        mounts=tuple(labs.BindMount.parse(text) for text in mount or ()),
        with_python=with_python,
        memory_mib=memory_mib,
        bare=bare,
        engines=engines,
    )
    left = "What was started has been removed again."
    with (
        interrupt.explained(left, "To start it again"),
        Progress("Starting the lab", done=f"Started {counted(nodes, 'node')}"),
    ):
        lab = labs.up(options)
    if as_json:
        console.emit_json(_document(labs.status(directory)))
        return
    console.data(_node_table(lab))
    console.talk(f"Next: clusterctl check {_shown(lab.inventory_path)}")
    console.talk(f"then: clusterctl lab down --dir {_shown(lab.directory)}")


@app.command()
def down(
    directory: DirectoryOption = _DEFAULT_DIRECTORY,
    purge_cache: Annotated[
        bool, typer.Option("--purge-cache", help="Also remove the cached root filesystem.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a lab with all its files.

    If the directory holds no lab, nothing is removed and the command succeeds.
    """
    from clusterctl import lab as labs

    removed = labs.down(directory, purge_cache=purge_cache)
    if as_json:
        from clusterctl.documents.lab import LabDown

        console.emit_json(LabDown(directory=str(directory.absolute()), removed=removed).document())
    else:
        console.talk(f"removed the lab in {directory}" if removed else f"no lab in {directory}")


@app.command()
def status(directory: DirectoryOption = _DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Report which nodes run and answer SSH.

    Exit code 0: all nodes answer SSH; 1: a node does not, or no lab is up.
    """
    from clusterctl import lab as labs

    state = labs.status(directory)
    if as_json:
        console.emit_json(_document(state))
    elif state.lab is None:
        console.talk(f"no lab in {directory}")
    else:
        rows = [
            (
                entry.node.name,
                _answer(entry.running),
                _answer(entry.ssh),
                entry.node.address,
                str(entry.node.port),
            )
            for entry in state.nodes
        ]
        console.data(columns(("node", "running", "ssh", "address", "port"), rows, left=range(5)))
    raise typer.Exit(0 if state.lab is not None and all(entry.ssh for entry in state.nodes) else 1)


def _show_progress() -> None:
    # The first `up` builds for minutes, so it reports its progress unless --quiet is set.
    if logging.getLogger(log.ROOT).getEffectiveLevel() == logging.WARNING:
        log.get("clusterctl.lab").setLevel(logging.INFO)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _answer(yes: bool) -> str:
    return "yes" if yes else "NO"


def _node_table(lab: Lab) -> str:
    rows = [(node.name, node.user, node.address, str(node.port), node.fabric_address) for node in lab.nodes]
    return columns(("node", "user", "address", "port", "address among the nodes"), rows, left=range(5))


def _document(state: LabStatus) -> dict[str, Any]:
    from clusterctl.documents.lab import LabNodeStatus, LabStatusDocument

    lab = state.lab
    return LabStatusDocument(
        directory=str(state.directory),
        driver=lab.driver if lab else None,
        inventory=str(lab.inventory_path) if lab else None,
        known_hosts=str(lab.known_hosts_path) if lab else None,
        identity_file=str(lab.identity_file) if lab else None,
        nodes=tuple(
            LabNodeStatus(
                name=entry.node.name,
                user=entry.node.user,
                address=entry.node.address,
                port=entry.node.port,
                fabric_address=entry.node.fabric_address,
                running=entry.running,
                ssh=entry.ssh,
                pid=entry.node.pid,
                container_id=entry.node.container_id,
            )
            for entry in state.nodes
        ),
    ).document()
