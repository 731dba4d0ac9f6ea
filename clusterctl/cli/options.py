"""Options that several verbs share, and the state that the top-level callback leaves for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from clusterctl.errors import UsageError

InventoryArgument = Annotated[
    Optional[Path],  # noqa: UP045 - typer evaluates this at run time on 3.10
    typer.Argument(
        metavar="INVENTORY",
        help="Inventory file; default: $CLUSTERCTL_INVENTORY, ./inventory.yaml, else this machine.",
        show_default=False,
    ),
]
InventoryOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--inventory",
        "-i",
        metavar="INVENTORY",
        help="Inventory file; default: $CLUSTERCTL_INVENTORY, ./inventory.yaml, else this machine.",
        show_default=False,
    ),
]
# These three may be repeated, which adds to them: of two, one must not be dropped in silence.
LimitOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--limit", metavar="NODESET", help="Only these nodes or groups, e.g. 'gpu[01-04],spare'."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; talk goes to stderr.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
OnlyOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--only", metavar="R,..", help="Only these requirements."),
]
SkipOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--skip", metavar="R,..", help="All requirements but these."),
]
FanoutOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--fanout", min=1, help="Nodes contacted at once.", show_default=False),
]
AcceptHostKeysOption = Annotated[
    bool,
    typer.Option(
        "--accept-new-host-keys",
        help="Record the host keys of nodes never seen before; changed keys are always refused.",
    ),
]
RunsOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--runs", metavar="DIR", help="Where run folders go; default: $CLUSTERCTL_RUNS, else ./runs."
    ),
]


# What a timer, a calendar and a launcher's own clock still can count.
_LONGEST_WAIT_S = 366 * 86400.0


def require_seconds(timeout_s: float, flag: str = "--timeout") -> None:
    """Raise UsageError for a timeout that no clock can count to: "inf", "nan", more than a year."""
    if not 0 < timeout_s <= _LONGEST_WAIT_S:
        raise UsageError(
            f"{flag} {timeout_s:g} is no time that can be waited for",
            hint=f"write seconds, a year at most: {flag} 86400 is a day",
        )


def require_image(name: str | None) -> None:
    """Raise UsageError for an --image that an inventory could not hold: an empty one, or one like an option."""
    if name is not None and not _is_word(name):
        raise UsageError(f"{name!r} is no name of an image", hint="it is written registry/name:tag")


def require_volumes(volumes: Sequence[str]) -> None:
    """Raise UsageError for a --volume that an inventory could not hold: 'down' reads the run's again."""
    from clusterctl.inventory.shapes import shape_of

    for volume in volumes:
        if not _is_word(volume):
            raise UsageError(
                f"--volume {volume!r} is not {shape_of(('volumes',))}",
                hint="give the folder another name, or a link to it, without spaces",
            )


def _is_word(text: str) -> bool:
    """Whether an inventory takes it as one."""
    from pydantic import TypeAdapter, ValidationError

    from clusterctl.inventory.field_types import Word

    try:
        TypeAdapter(Word).validate_python(text)
    except ValidationError:
        return False
    return True


def names(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Split a comma-separated option, given any number of times; None stays None.

    One that names nothing is a UsageError.
    """
    if texts is None:
        return None
    parts = tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
    if not parts:
        # Most likely an unset variable of a script: taken as "nothing to check" it would always pass.
        given = ",".join(texts)
        raise UsageError(f"{given!r} names no requirement", hint="name at least one, or leave the option out")
    return parts
