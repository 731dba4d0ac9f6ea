"""Define the options that several commands share, and check their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from clusterctl.errors import UsageError

InventoryArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="INVENTORY",
        help="Inventory file, or targets such as root@gpu[01-16]; default: $CLUSTERCTL_INVENTORY, "
        "./inventory.yaml, else this machine.",
        show_default=False,
    ),
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="INVENTORY",
        help="Inventory file, or targets; it may also be the first argument.",
        show_default=False,
    ),
]
# --limit, --only and --skip may be repeated, which adds to them: no value is silently dropped.
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NODESET",
        help="Only these nodes or groups: gpu[01-04],spare; wildcards and exclusions: 'gpu*,!gpu03'.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="REQUIREMENT,..", help="Only these requirements.")
]
SkipOption = Annotated[
    list[str] | None, typer.Option("--skip", metavar="REQUIREMENT,..", help="All requirements except these.")
]
FanoutOption = Annotated[
    int | None, typer.Option("--fanout", min=1, help="Number of nodes contacted at once.", show_default="64")
]
AcceptHostKeysOption = Annotated[
    bool,
    typer.Option(
        "--accept-new-host-keys", help="Record the host keys of new nodes; changed keys are always refused."
    ),
]
RunsOption = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="Directory of the run folders; default: $CLUSTERCTL_RUNS, else 'runs' beside the inventory.",
    ),
]

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, a unique part of it, or 'latest'.")
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML page with charts."),
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Also write the result as JUnit XML.")
]
CsvOption = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Also write the figures as CSV, for spreadsheets."),
]
PrometheusOption = Annotated[
    Path | None,
    typer.Option(
        "--prometheus",
        metavar="FILE",
        help="Also write the result as a Prometheus textfile, for node_exporter.",
    ),
]


class Drain(str, Enum):
    """What ``--drain`` does with the nodes of Slurm: print the commands, or run them."""

    PRINT = "print"
    SLURM = "slurm"


DrainOption = Annotated[
    Drain | None,
    typer.Option(
        "--drain",
        help="Drain faulty nodes in Slurm, and undrain those that it drained and that are good again; "
        "print: show the commands.",
        show_default="off",
    ),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="TEXT", help="A label of the run, for 'runs list'.")
]


# Timers, dates and the clocks of launchers can all represent a year.
_LONGEST_WAIT_S = 366 * 86400.0


def require_seconds(timeout_s: float, flag: str = "--timeout") -> None:
    """Raise UsageError for a timeout that is not a positive number of seconds, or is longer than a year."""
    if not 0 < timeout_s <= _LONGEST_WAIT_S:
        raise UsageError(
            f"{flag} must be a positive number of seconds, at most a year, not {timeout_s:g}",
            hint=f"give seconds: {flag} 86400 is a day",
        )


def require_alone(mode: str, what_it_does: str, given: Mapping[str, object], allowed: str = "") -> None:
    """Raise UsageError if an option that ``mode`` excludes was given; ``given``: values, None or False if not given."""
    flags = [flag for flag, value in given.items() if value is not None and value is not False]
    if flags:
        raise UsageError(
            f"{mode} {what_it_does}, so {', '.join(flags)} cannot be combined with it",
            hint="leave one of them out" + (f"; {mode} allows {allowed}" if allowed else ""),
        )


def require_image(name: str | None, option: str = "--image") -> None:
    """Raise UsageError for an image that an inventory rejects: an empty one, or one that begins with a dash."""
    if name is not None and not _is_word(name):
        raise UsageError(f"{option} {name!r} is not a valid image name", hint="give it as registry/name:tag")


def require_volumes(volumes: Sequence[str]) -> None:
    """Raise UsageError for a --volume that an inventory rejects: 'down' reads the run's inventory again."""
    from clusterctl.inventory.shapes import shape_of

    for volume in volumes:
        if not _is_word(volume):
            raise UsageError(
                f"--volume {volume!r} is not {shape_of(('volumes',))}",
                hint="rename the directory, or make a link to it, without spaces in the path",
            )


def _is_word(text: str) -> bool:
    """Return whether an inventory accepts the text as a word."""
    from pydantic import TypeAdapter, ValidationError

    from clusterctl.inventory.field_types import Word

    try:
        TypeAdapter(Word).validate_python(text)
    except ValidationError:
        return False
    return True


def names(texts: Sequence[str] | None, known: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Split a comma-separated option that may be repeated; None stays None.

    A name that differs from a ``known`` one only in case and punctuation is that one.

    Raise UsageError for an option that names nothing.
    """
    if texts is None:
        return None
    from clusterctl.text.closest import spelled

    parts = tuple(spelled(part.strip(), known) for text in texts for part in text.split(",") if part.strip())
    if not parts:
        # Probably an unset variable of a script: read as "check nothing", it would always pass.
        given = ",".join(texts)
        raise UsageError(f"{given!r} names no requirement", hint="name at least one, or leave the option out")
    return parts


def requirement_names(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return what ``names`` returns for an option that names requirements."""
    from clusterctl.inventory.field_types import REQUIREMENT_NAMES

    return names(texts, REQUIREMENT_NAMES)
