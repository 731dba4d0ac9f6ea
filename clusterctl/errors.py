"""Define the expected errors and their exit codes. Only ``cli.main`` turns an error into an exit."""

from __future__ import annotations

from typing import ClassVar


class ClusterctlError(Exception):
    """Report a problem that the user can act on: ``message`` describes it, ``hint`` says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(ClusterctlError):
    """The command line names something that does not exist, or contradicts itself."""

    exit_code = 2


class ConfigError(ClusterctlError):
    """A setting (flag, environment variable or configuration file) cannot be used."""

    exit_code = 3


class ControllerFileError(ConfigError):
    """clusterctl cannot write one of its own files on this machine; the nodes are not the cause.

    Such files are run folders, journals, recordings, logs and known_hosts. The run ends.
    """


class InventoryError(ClusterctlError):
    """The inventory file is invalid or cannot be read; no node was contacted."""

    exit_code = 4


class NodeConnectionError(ClusterctlError):
    """No node can be reached, or one that the command cannot do without."""

    exit_code = 5


class CommandError(ClusterctlError):
    """A required command failed on a node."""

    exit_code = 6


class FactsError(ClusterctlError):
    """The facts of a node, or a file of recorded facts, cannot be parsed."""

    exit_code = 7


class PlanError(ClusterctlError):
    """The planned steps contradict each other, or a plan or journal cannot be used."""

    exit_code = 8


class ArtifactError(ClusterctlError):
    """A docker command, hostfile, launch command or other artifact cannot be generated."""

    exit_code = 9


class ImageError(ArtifactError):
    """An image cannot be built, pushed or proven, or the docker engine is not available."""


class LaunchError(ClusterctlError):
    """A program failed to start on the nodes, hung, died, or ran with the wrong ranks."""

    exit_code = 10


class LabError(LaunchError):
    """The rehearsal lab cannot be built, started or removed."""


class ResultError(ClusterctlError):
    """The output of a run, or a stored result, cannot be parsed."""

    exit_code = 11
