"""Define a lab: its nodes, its files, and the record (``state.json``) that finds and removes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clusterctl.documents.lab import Driver, GuestSize, LabMount, LabNode, LabState
from clusterctl.errors import LabError
from clusterctl.lab.python_mounts import BindMount
from clusterctl.rundir import LAB_FOLDER
from clusterctl.text import model_errors, user_files
from clusterctl.text.foreign import json_value

DEFAULT_DIRECTORY = Path(LAB_FOLDER)
_LARGEST_BYTES = 4 << 20
STATE_FILE = "state.json"
STATE_SCHEMA = LabState.schema_name()


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up: its directory and everything in it that a user or a test needs."""

    lab_id: str
    directory: Path
    driver: Driver
    image_key: str
    size: GuestSize
    nodes: tuple[LabNode, ...]
    python: str | None = None
    """The path of the mounted Python interpreter on the nodes (docker), when one was asked for."""
    mounts: tuple[BindMount, ...] = ()
    """The directories and files of this machine that every node sees."""

    @property
    def inventory_path(self) -> Path:
        return self.directory / "inventory.yaml"

    @property
    def known_hosts_path(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_config_path(self) -> Path:
        """A configuration for OpenSSH: ``ssh -F <it> node1``."""
        return self.directory / "ssh_config"

    @property
    def identity_file(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def state_path(self) -> Path:
        return self.directory / STATE_FILE

    @property
    def nodes_folder(self) -> Path:
        return self.directory / "nodes"

    def node_folder(self, name: str) -> Path:
        """Return the directory of a node's own files: its host key and, of a guest, its disk and console log."""
        return self.nodes_folder / name

    def node(self, name: str) -> LabNode:
        """Return the node of that name; raise LabError when the lab has none."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise LabError(f"the lab in {self.directory} has no node {name!r}", hint=f"its nodes are: {names}")

    def ssh_argv(self, name: str, *command: str) -> tuple[str, ...]:
        """Return the argv of OpenSSH's client that runs a command on a node as its SSH user.

        As always with OpenSSH, the words of ``command`` are joined by blanks and read by the node's shell.
        """
        node = self.node(name)
        return (
            "ssh", "-F", "none",
            "-i", str(self.identity_file),
            "-p", str(node.port),
            "-o", "IdentitiesOnly=yes",
            "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=yes",
            "-o", f"UserKnownHostsFile={self.known_hosts_path}",
            # A guest without KVM takes seconds for the key exchange alone.
            "-o", "ConnectTimeout=30",
            "-o", "ServerAliveInterval=15",
            "-o", "ServerAliveCountMax=8",
            "-o", "LogLevel=ERROR",
            f"{node.user}@{node.address}", "--", *command,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """State of a node: whether it runs, and whether its SSH server answers with the expected host key."""

    node: LabNode
    running: bool
    ssh: bool


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab with the state of its nodes; ``lab`` is None when the directory has none."""

    directory: Path
    lab: Lab | None
    nodes: tuple[NodeStatus, ...]


def save(lab: Lab) -> None:
    """Write the lab's record, whole or not at all."""
    state = LabState(
        lab_id=lab.lab_id,
        driver=lab.driver,
        image_key=lab.image_key,
        size=lab.size,
        python=lab.python,
        mounts=tuple(LabMount(**asdict(mount)) for mount in lab.mounts),
        nodes=lab.nodes,
    )
    partial = lab.state_path.with_suffix(".partial")
    partial.write_text(json.dumps(state.document(), indent=2) + "\n", encoding="utf-8")
    partial.replace(lab.state_path)


def load(directory: Path) -> Lab | None:
    """Read a lab's record; None when the directory has none; raise LabError for a record that is not ours."""
    directory = directory.absolute()
    path = directory / STATE_FILE
    try:
        document: Any = json_value(user_files.read(path, _LARGEST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be read: {error}", hint="remove the directory by hand") from None
    try:
        if document["schema"] != STATE_SCHEMA:
            raise LabError(
                f"{path} has the schema {document['schema']!r}, not {STATE_SCHEMA!r}",
                hint="take the lab down with the version of clusterctl that made it",
            )
        state = LabState.model_validate(document)
    except (KeyError, TypeError, ValidationError) as error:
        raise LabError(
            f"{path} is not a lab's record: {_why(error)}", hint="remove the directory by hand"
        ) from None
    mounts = tuple(BindMount(**dict(mount)) for mount in state.mounts)
    return Lab(
        state.lab_id, directory, state.driver, state.image_key, state.size, state.nodes, state.python, mounts
    )


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return repr(error)
    return model_errors.first(error)
