"""List the exit codes of all commands, with their meanings."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl import errors
from clusterctl.errors import ClusterctlError

INTERRUPTED = 130
READER_GONE = 141


def meanings() -> Iterator[tuple[int, str]]:
    """Yield each exit code and its meaning; the codes of errors come from their classes."""
    yield 0, "The command succeeded."
    yield 1, "The command ran and found a problem; each command lists which."
    # Subclasses in other modules are special cases of these, and which of them exist depends on the imports.
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and one is not ClusterctlError]
    for kind in sorted(
        (one for one in kinds if issubclass(one, ClusterctlError)), key=lambda one: one.exit_code
    ):
        yield kind.exit_code, " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    yield INTERRUPTED, "The command was interrupted (Ctrl-C)."
    yield READER_GONE, "The reader of standard output closed it, as `head` does."
