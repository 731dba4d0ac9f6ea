"""The Horovod API on collective_core: `import collective_core.horovod.torch as hvd`.

Modules have the names of Horovod's, so that `collective_core.aliases` can put them in its place for scripts that are
not to be changed. docs/horovod.md says what differs. Importing this package loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collective_core.usage import UsageRecorder


def usage_recorder() -> UsageRecorder:
    """Return a recorder of the algorithms and settings that all ranks use; raises ValueError before `init`."""
    from collective_core.horovod import world

    return world.current().group(0).usage_recorder()


def __getattr__(name: str) -> NoReturn:
    """Refuse what Horovod's own package has and this one has not."""
    if name == "run":
        from collective_core.horovod.common.exceptions import not_supported

        raise not_supported("horovod.run", "start the ranks with mpirun, torchrun or srun")
    raise AttributeError(f"{name} is not part of collective_core's Horovod API: see docs/horovod.md")
