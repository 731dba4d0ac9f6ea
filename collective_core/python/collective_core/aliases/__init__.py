"""Let `import horovod.torch` and `import torch_accl` of an unchanged script mean collective_core's.

`python -m collective_core.run script.py` and CCORE_RUN=1 do so; CCORE_ALIAS=1 does only this. The variables take effect
at the end of `import torch`; `collective_core.run` also serves scripts that import torch later. An installed package is
never replaced, unless by CCORE_ALIAS=force.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from collective_core import environment

OURS = {"horovod": "collective_core.horovod", "torch_accl": "collective_core.torch_accl"}
"""Which package or module of collective_core takes the place of another one."""
BEFORE_TORCH = Path(__file__).resolve().parent / "before_torch"
"""A directory for PYTHONPATH per name, whose module installs the alias when it is imported."""
_GUIDE = {"horovod": "Horovod API, which serves horovod.torch: see docs/horovod.md"}
_logger = logging.getLogger("collective_core")


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one of these names, and the modules below it, in this package."""

    def __init__(self, name: str) -> None:
        """Take the name; a key of `OURS`."""
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Claim the name; raises ImportError for its parts that are not here."""
        if fullname.partition(".")[0] != self.name:
            return None
        ours = self._ours(fullname)
        if fullname != self.name and not _has(ours):
            raise ModuleNotFoundError(
                f"{fullname} is not part of collective_core's {_GUIDE.get(self.name, self.name)}",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put our module itself under the other name, so that there is only one of each."""
        sys.modules[module.__name__] = importlib.import_module(self._ours(module.__name__))

    def _ours(self, fullname: str) -> str:
        return OURS[self.name] + fullname.removeprefix(self.name)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is a module, not a package
        return False


def wanted(of_run: bool) -> str:
    """Return what CCORE_ALIAS asks for: 0, 1 or force; unset it is 1 in a process of CCORE_RUN, else 0.

    Raises CollectiveCoreError if it is set to anything else.
    """
    return environment.choice("CCORE_ALIAS") if environment.text("CCORE_ALIAS") else "01"[of_run]


def free_names(*, force: bool) -> list[str]:
    """Return the names that are to be ours: those under which no package is installed, or all with `force`."""
    return [name for name in OURS if force or is_alias(name) or not _is_installed(name)]


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return True
    found = importlib.util.find_spec(name)
    if (
        found is None or found.origin is None
    ):  # a plain directory of this name, such as a clone, is not a package
        return False
    return not Path(found.origin).is_relative_to(BEFORE_TORCH)


def is_alias(name: str) -> bool:
    """Return whether the name is ours in this process."""
    return any(isinstance(finder, Alias) and finder.name == name for finder in sys.meta_path)


def install(names: Iterable[str]) -> None:
    """Make these names ours, whatever is installed; modules that were imported under them are forgotten."""
    for name in names:
        if not is_alias(name):
            for module in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[module]
            sys.meta_path.insert(0, Alias(name))


def install_if_wanted(*, of_run: bool) -> None:
    """Install what CCORE_ALIAS and CCORE_RUN ask for; a package that is installed and stays is reported."""
    asked = wanted(of_run)
    if asked == "0":
        return
    names = free_names(force=asked == "force")
    install(names)
    for name in OURS.keys() - names:
        _logger.warning("%s is installed here and stays: CCORE_ALIAS=force replaces it", name)
