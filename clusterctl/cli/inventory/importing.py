"""``inventory import``: write an inventory.yaml from another tool's inventory, without contacting a node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl import __version__
from clusterctl.cli import console
from clusterctl.cli.options import JsonOption
from clusterctl.errors import InventoryError
from clusterctl.inventory.user_paths import at_home, is_file, is_folder, is_there
from clusterctl.text import user_files

if TYPE_CHECKING:
    from clusterctl.inventory.imports.found import ImportedInventory, ImportNote, Source
    from clusterctl.inventory.imports.kinds import Kind

MAX_BYTES = 4 * 1024 * 1024
MAX_FILES = 20_000
MAX_BYTES_BESIDE = 16 * 1024 * 1024
STDIN = "<stdin>"


class From(str, Enum):
    """Name the source formats."""

    auto = "auto"
    ansible = "ansible"
    clustershell = "clustershell"
    etc_hosts = "etc-hosts"
    hostfile = "hostfile"
    slurm = "slurm"
    ssh_config = "ssh-config"


def import_inventory(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Ansible inventory (INI, YAML), ClusterShell groups, hostfile, /etc/hosts, ssh_config, or output of "
            "sinfo or scontrol; '-': stdin.",
        ),
    ],
    *,
    from_: Annotated[From, typer.Option("--from", help="Source format.")] = From.auto,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file; default: stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    json: JsonOption = False,
) -> None:
    """Write an inventory with another tool's nodes.

    Settings that cannot be converted are listed on stderr.
    """
    from clusterctl.cli.inventory import writing
    from clusterctl.inventory.imports import kinds

    if output is not None:
        writing.refuse_existing(output, force)
    read = _source(source)
    kind = kinds.detect(read) if from_ is From.auto else kinds.Kind(from_.value)
    # Relative paths in an inventory start at its own directory.
    folder = output.resolve().parent if output is not None else Path()
    found, text = converted(read, kind, folder)
    for note in found.notes:
        console.talk(str(note))
    if output is not None:
        writing.write(output, text, force)
        console.talk(f"{output}: {len(found.nodes)} nodes, read as {kinds.TITLES[kind]}")
    if json:
        from clusterctl.documents.inventory import Import, ImportNote

        notes = tuple(ImportNote(file=note.file, line=note.line, message=note.text) for note in found.notes)
        nodes = tuple(node.name for node in found.nodes)
        console.emit_json(Import(kind=kind.value, text=text, nodes=nodes, notes=notes).document())
    elif output is None:
        console.data(text)


def converted(source: Source, kind: Kind, folder: Path) -> tuple[ImportedInventory, str]:
    """Return the imported nodes and the text of inventory.yaml, after loading it once to check it."""
    from dataclasses import replace

    from clusterctl.inventory import load
    from clusterctl.inventory.imports import kinds
    from clusterctl.inventory.imports.cleaning import cleaned
    from clusterctl.inventory.imports.writing import text

    found = cleaned(kinds.read(source, kind), lambda path: _exists(path, folder))
    found = replace(found, notes=tuple(dict.fromkeys((*found.notes, *_typing_errors(source, kind)))))
    if not found.nodes:
        said = "".join(f"\n{note}" for note in found.notes[:10])
        raise InventoryError(f"{source.name}: no node in it can be imported{said}")
    written = text(found, f"Made from {kinds.TITLES[kind]} ({source.name}) by clusterctl {__version__}.")
    loaded = load.from_text(written, "the inventory made", folder)
    if [node.name for node in loaded.nodes] != [node.name for node in found.nodes]:
        raise InventoryError(f"{source.name}: its {len(found.nodes)} nodes cannot be written as an inventory")
    return found, written


def _typing_errors(source: Source, kind: Kind) -> list[ImportNote]:
    from clusterctl.artifacts.hostfile import Dialect, lint
    from clusterctl.inventory.imports import hostfile
    from clusterctl.inventory.imports.found import ImportNote
    from clusterctl.inventory.imports.kinds import Kind

    if kind is not Kind.hostfile:
        return []
    dialect = Dialect.MPICH if hostfile.is_mpich(source.text) else Dialect.OPENMPI
    return [ImportNote(source.name, finding.line, finding.message) for finding in lint(source.text, dialect)]


def _source(name: str) -> Source:
    from clusterctl.inventory.imports.found import Source

    if name == "-":
        return Source(STDIN, _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), STDIN))
    path = at_home(name)
    text = _read(path)
    beside = _Beside()
    for folder in ("group_vars", "host_vars"):
        for file in sorted((path.parent / folder).rglob("*")) if is_folder(path.parent / folder) else ():
            beside.add(file)
    _include(path, text, beside)
    return Source(str(path), text, beside.texts)


class _Beside:
    """Collect the files that belong to an inventory, by path; their number and total size are bounded."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._size = 0

    def add(self, file: Path) -> str | None:
        """Read a file and return its text; None for a directory and for one that was read before."""
        if is_folder(file) or not is_there(file) or str(file) in self.texts:
            return None
        text = _read(file)
        self._size += len(text)
        if len(self.texts) >= MAX_FILES or self._size > MAX_BYTES_BESIDE:
            raise InventoryError(
                f"{file}: with it, {len(self.texts) + 1} files of {self._size} characters belong to the inventory; "
                f"expected at most {MAX_FILES} files and {user_files.size_text(MAX_BYTES_BESIDE)}",
                hint="import the output of ansible-inventory --list --yaml --export, or of ssh -G, through '-'",
            )
        self.texts[str(file)] = text
        return text


def _include(path: Path, text: str, beside: _Beside) -> None:
    """Read the files of ``Include`` lines, relative to the directory of the file (ssh_config(5): ~/.ssh)."""
    import glob

    from clusterctl.text.openssh import reader

    def read(line: reader.Line, within: reader.ConfigSection, depth: int) -> Iterator[tuple[str, str]]:
        for pattern in line.words:
            # glob.glob leaves out hidden files as glob(3) does; Path.glob does not.
            for name in sorted(glob.glob(str(path.parent / at_home(pattern)))):  # noqa: PTH207
                included = beside.add(Path(name))
                if included is not None:
                    yield name, included

    reader.Config().add(str(path), text, read)


def _exists(path: str, folder: Path) -> bool:
    return is_file(folder / at_home(path))


def _read(path: Path) -> str:
    try:
        return _decoded(user_files.read(path, MAX_BYTES, pipes=True), str(path))
    except OSError as error:
        hint = "give the hosts file in it" if is_folder(path) else user_files.hint_of(error)
        raise InventoryError(f"{path} cannot be read: {error.strerror}", hint=hint) from None


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise InventoryError(f"{name} is too large for an inventory: more than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InventoryError(f"{name}:{line}: invalid UTF-8; expected a text file") from None
