"""Every expected error, its exit code and its hint. Only ``cli.main`` turns one into an exit."""

from __future__ import annotations

from typing import ClassVar


class ClusterctlError(Exception):
    """An error that the user can act on: what happened, and what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(ClusterctlError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = 2


class ConfigError(ClusterctlError):
    """A setting (flag, environment variable or configuration file) cannot be used."""

    exit_code = 3


class ControllerFileError(ConfigError):
    """A file of clusterctl's own on this machine cannot be written: the run ends, and no node is at fault.

    Run folders, journals, recordings, logs and known_hosts are such files.
    """


class InventoryError(ClusterctlError):
    """The inventory file cannot be read as an inventory; nothing was contacted."""

    exit_code = 4


class NodeConnectionError(ClusterctlError):
    """A node cannot be reached, or the connection to it was lost."""

    exit_code = 5


class CommandError(ClusterctlError):
    """A command that has to succeed failed on a node."""

    exit_code = 6


class FactsError(ClusterctlError):
    """The facts of a node, or a file of recorded facts, cannot be understood."""

    exit_code = 7


class PlanError(ClusterctlError):
    """No sound plan can be made, or a plan or journal cannot be followed."""

    exit_code = 8


class ArtifactError(ClusterctlError):
    """A docker line, hostfile, command line or other artifact cannot be produced."""

    exit_code = 9


class ImageError(ArtifactError):
    """An image cannot be built, pushed or proven, or the docker engine that it needs is not there."""


class LaunchError(ClusterctlError):
    """A program could not be started on the nodes, hung, died, or ran with the wrong ranks."""

    exit_code = 10


class LabError(LaunchError):
    """The rehearsal lab cannot be built, started or removed."""


class ResultError(ClusterctlError):
    """The output of a run, or a stored result, cannot be understood."""

    exit_code = 11
