"""Let someone follow a run while its ranks work: which launch runs, and what rank 0 prints meanwhile.

A viewer only shows. Results come from the complete output of the ranks, after the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Turn:
    """Tell which of several interleaved measurements one is; numbers begin at 1."""

    variant: str = ""
    variant_number: int = 1
    variants: int = 1
    repeat: int = 1
    repeats: int = 1


def spoken(turn: Turn) -> str:
    """Return the name of one of several measurements; empty if there is only one."""
    parts = [f"variant {turn.variant}"] if turn.variants > 1 else []
    parts += [f"repeat {turn.repeat} of {turn.repeats}"] if turn.repeats > 1 else []
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Step:
    """Describe one launch of a run; ``total``: the sizes of a collective, None for other launches."""

    benchmark: str
    np: int
    nodes: int
    launcher: str
    timeout_s: float
    training: bool = False
    program: bool = False
    """Whether it is a program of the user, whose output is shown as it is."""
    total: int | None = None
    point: int = 1
    points: int = 1
    turn: Turn = field(default_factory=Turn)


class Viewer:
    """Follow nothing; a base class. The methods are called from any thread, and must neither wait nor fail."""

    def probing(self, nodes: Sequence[str]) -> None:
        """Note that these nodes are asked what they have."""

    def probed(self, node: str) -> None:
        """Note that this node answered, or failed to."""

    def meshing(self, nodes: int) -> None:
        """Note that SSH between this many nodes is tested."""

    def starting(self, step: Step) -> None:
        """Note that a launch starts."""

    def said(self, text: str) -> None:
        """Note what rank 0 wrote to its stdout; the text may end within a line."""

    def quiet(self, seconds: float) -> None:
        """Note for how many seconds no rank of a user's program has written anything."""

    def noted(self, text: str) -> None:
        """Note what was found out about ranks that write nothing."""

    def ended(self, *, succeeded: bool) -> None:
        """Note that the launch ended."""
