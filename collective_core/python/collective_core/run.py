"""Run a training script, which needs no change, with collective_core.

    python -m collective_core.run [OPTIONS] (SCRIPT | -m MODULE | -c COMMAND) [ARGUMENT ...]

Everything from the script on is given to Python as it is. This program sets variables and then becomes that Python: it
is one process, so that `__main__`, sys.argv, tracebacks, signals and exit codes are those of Python alone. Python's
own options, as in `python -O -m collective_core.run train.py`, count for the script.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collective_core import aliases, environment
from collective_core.errors import CollectiveCoreError, LibraryNotFoundError, Result
from collective_core.locations import nccl_library_path

_NAME = "collective_core.run"


@dataclass(frozen=True, slots=True)
class Option:
    """An option, and the variable that it sets for the script and its children."""

    word: str
    variable: str
    value: str
    meaning: str


OPTIONS = (
    Option("--for-gloo", "CCORE_FOR_GLOO", "1", "serve backend gloo too: its calls run on ccore"),
    Option("--bind-cpus", "CCORE_CPU_BINDING", "1", "bind each rank to CPUs near its GPU"),
    Option("--no-bucket-tuning", "CCORE_BUCKET_TUNE_DISABLE", "1", "leave DDP's bucket size as it is"),
    Option("--no-nccl", "CCORE_NCCL", "0", "put no library in front of NCCL"),
    Option("--force-aliases", "CCORE_ALIAS", "force", "replace an installed Horovod or torch_accl"),
)
_FIRST_OF_SCRIPT = ("-m", "-c")


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return our own options, and what Python gets: -m, -c or the first word without a dash, and all after it."""
    for place, word in enumerate(words):
        if not word.startswith("-") or word == "-" or word[:2] in _FIRST_OF_SCRIPT:
            return list(words[:place]), list(words[place:])
    return list(words), []


def python_options(original: Sequence[str], arguments: int) -> list[str]:
    """Return the options of Python itself in `sys.orig_argv`, whose last words are so many arguments of ours.

    What comes before our own `-m collective_core.run` stays: `-O`, `-X dev`, `-m cProfile`. Raises CollectiveCoreError
    without `-m`.
    """
    before = list(original[1 : len(original) - arguments])
    last = before.pop()
    if not last.endswith(_NAME):  # the path of this file: Python would run it again, and so on without an end
        raise CollectiveCoreError(Result.INVALID_USAGE, f"start it as python -m {_NAME}, not as {last}")
    if before and last == _NAME:
        last = before.pop()  # -m, or flags that end in it, as -um
        last = last.removesuffix("m")
    else:
        last = last.removesuffix(f"m{_NAME}")
    return [*before, last] if last != "-" else before


def variables(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what is added to this environment for the script; `chosen` are the variables of options.

    Raises LibraryNotFoundError if the library in front of NCCL is wanted and missing, CollectiveCoreError if a variable
    has a value that is not understood or keeps the script's torch from loading this package.
    """
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise CollectiveCoreError(
            Result.INVALID_USAGE,
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading collective_core: unset it",
        )
    made = {"CCORE_RUN": "1", **chosen}
    if not environment.text("CCORE_DEBUG"):
        made["CCORE_DEBUG"] = "VERSION"
    if made.get("CCORE_NCCL", environment.choice("CCORE_NCCL")) != "0":
        made["LD_PRELOAD"] = _in_front(str(nccl_library_path()), os.environ.get("LD_PRELOAD", ""))
    alias = made.get("CCORE_ALIAS", aliases.wanted(of_run=True))
    if alias != "0":
        names = aliases.free_names(force=alias == "force")
        paths = [str(aliases.BEFORE_TORCH / name) for name in names]
        made["PYTHONPATH"] = _added(paths, os.environ.get("PYTHONPATH", ""), first=alias == "force")
    return made


def _in_front(library: str, preloaded: str) -> str:
    if any(separator in library for separator in " :"):
        raise CollectiveCoreError(
            Result.INVALID_USAGE,
            f"LD_PRELOAD cannot hold {library!r}, whose path has a space or a colon: install the package elsewhere, "
            "or use --no-nccl",
        )
    return (
        preloaded if library in preloaded.replace(" ", ":").split(":") else f"{library} {preloaded}".strip()
    )


def _added(paths: Sequence[str], existing: str, *, first: bool) -> str:
    old = existing.split(os.pathsep) if existing else []
    kept = [path for path in old if path not in paths]
    return os.pathsep.join([*paths, *kept] if first else [*kept, *paths])


def main() -> None:
    """Become Python with the script."""
    parser = argparse.ArgumentParser(
        prog="python -m collective_core.run",
        usage="%(prog)s [OPTIONS] (SCRIPT | -m MODULE | -c COMMAND) [ARGUMENT ...]",
        description="Run a training script, which needs no change, with collective_core.",
        epilog="Each option sets a variable. Other settings are variables only: see docs/environment.md.",
        allow_abbrev=False,
    )
    for option in OPTIONS:
        parser.add_argument(
            option.word, action="store_true", help=f"{option.meaning} ({option.variable}={option.value})"
        )
    own, script = split(sys.argv[1:])
    chosen = vars(parser.parse_args(own))
    if not script:
        parser.error("no script: write python -m collective_core.run train.py")
    settings = {
        option.variable: option.value
        for option in OPTIONS
        if chosen[option.word.removeprefix("--").replace("-", "_")]
    }
    try:
        options = python_options(sys.orig_argv, len(sys.argv) - 1)
        made = variables(settings)
    except (CollectiveCoreError, LibraryNotFoundError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    words = [sys.executable, *options, *script]
    os.execve(sys.executable, words, {**os.environ, **made})


if __name__ == "__main__":
    main()
