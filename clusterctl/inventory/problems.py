"""Problems of an inventory file by line, and the error that lists all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusterctl.errors import InventoryError

KeyPath = tuple[str | int, ...]
_SHOWN = 20


@dataclass(frozen=True, slots=True, order=True)
class InventoryProblem:
    """One problem: its line (from 1; 0 for the file as a whole), the key's path, and a sentence."""

    line: int
    key: str
    message: str


def key_text(path: KeyPath) -> str:
    """Write a path of keys and indices as ``nodes[1].port``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def refusal(file: str, problems: Iterable[InventoryProblem]) -> InventoryError:
    """Return the error that lists the problems in the order of their lines, at most 20 of them."""
    found = sorted(set(problems))
    lines = []
    for problem in found[:_SHOWN]:
        place = f"{file}:{problem.line}" if problem.line else file
        lines.append(
            f"{place}: {problem.key}: {problem.message}" if problem.key else f"{place}: {problem.message}"
        )
    if len(found) > _SHOWN:
        lines.append(f"{file}: and {len(found) - _SHOWN} more problems")
    return InventoryError("\n".join(lines), hint="No node was contacted. Fix the file and run again.")
