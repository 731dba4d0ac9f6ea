"""Recorded cases of facts as the probe would print them: whole answers of a node, with markers and an end."""

from __future__ import annotations

from facts_recorded import CASES as FOLDER
from facts_recorded import load

CASES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.txt"))


def answer(case: str, nonce: str) -> str:
    """Return what a node would have printed to be recorded as this case."""
    parts = [f"\n{nonce} begin root -\n0 root \n\n{nonce} end root 0\n\n"]
    for name, section in load(FOLDER / case).items():
        parts.append(
            f"\n{nonce} begin {name} -\n{section.text}\n{nonce} end {name} {section.exit_status}\n{section.error}\n"
        )
    return "".join([*parts, f"\n{nonce} done 4711.25\n"])
