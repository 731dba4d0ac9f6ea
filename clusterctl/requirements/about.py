"""What a requirement is for, in words: the source of ``requirements show`` and of docs/requirements/README.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """Describe a requirement in phrases without a final period; backticks mark code.

    ``checks`` completes "met when", ``bootstrap`` and ``undo`` complete "bootstrap ..." and "undo ...". ``settings``
    are the keys or sections of the inventory that change the requirement, as in ``requirements.packages``.
    """

    checks: str
    why: str
    bootstrap: str
    undo: str
    settings: tuple[str, ...] = ()
