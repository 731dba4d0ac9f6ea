"""Let `import horovod.torch as hvd` of an unchanged script mean collective_core's.

Either start the script by `python -m collective_core.horovod.alias script.py ...`, or set CCORE_HOROVOD_ALIAS=1: then
`import torch` installs the alias, so torch must be imported before horovod. An installed Horovod is never shadowed,
unless by CCORE_HOROVOD_ALIAS=force or `--force`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from collective_core import environment
from collective_core.errors import CollectiveCoreError, Result

_OURS = "collective_core.horovod"
_logger = logging.getLogger("collective_core")
_USAGE = "usage: python -m collective_core.horovod.alias [--force] (SCRIPT | -m MODULE) [ARGUMENT ...]"


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `horovod` and its modules in this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Claim the names of Horovod; raises ImportError for its parts that are not here."""
        if fullname.partition(".")[0] != "horovod":
            return None
        name = _ours(fullname)
        if name != _OURS and importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"{fullname} is not part of collective_core's Horovod API, which serves horovod.torch: "
                "see docs/horovod.md",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put our module itself under the other name, so that there is only one of each."""
        sys.modules[module.__name__] = importlib.import_module(_ours(module.__name__))


def _ours(fullname: str) -> str:
    return _OURS + fullname.removeprefix("horovod")


def install(*, force: bool = False) -> bool:
    """Install the alias and return whether it is; not over an installed Horovod, unless forced."""
    if any(isinstance(finder, Alias) for finder in sys.meta_path):
        return True
    if not force:
        found = sys.modules.get("horovod") or importlib.util.find_spec("horovod")
        if found is not None:
            _logger.warning("horovod is installed here and stays: CCORE_HOROVOD_ALIAS=force replaces it")
            return False
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Alias())
    return True


def install_if_wanted() -> None:
    """Install the alias if CCORE_HOROVOD_ALIAS says so; raises CollectiveCoreError if it says something else."""
    wanted = environment.text("CCORE_HOROVOD_ALIAS")
    if wanted not in {"", "0", "1", "force"}:
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"CCORE_HOROVOD_ALIAS={wanted}: expected 0, 1 or force"
        )
    if wanted in {"1", "force"}:
        install(force=wanted == "force")


def main(arguments: list[str]) -> None:
    """Run a script or a module with the alias, as `python` would run it."""
    force = arguments[:1] == ["--force"]
    rest = arguments[1:] if force else arguments
    is_module = rest[:1] == ["-m"]
    if not rest or (is_module and len(rest) < 2) or (rest[0].startswith("-") and not is_module):
        sys.exit(_USAGE)
    install(force=force)
    if is_module:
        sys.argv = rest[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = rest
        sys.path.insert(0, str(Path(rest[0]).resolve().parent))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
