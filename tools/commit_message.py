"""Check a commit message: ``area: Imperative verb ...``. A commit-msg hook; CONTRIBUTING.md installs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from plain_english import found

LONGEST = 72
_SUBJECT = re.compile(r"[a-z.][\w.,/ -]*: (?P<verb>\S+)(?: .*)?")
# Words that end like another form of a verb.
_IMPERATIVE = {"Bring", "Embed", "Feed", "Need", "Seed", "Shed", "Speed", "String", "Focus", "Bias"}
_OTHER_FORM = re.compile(r"\w+(?:ed|ing|[^s]s)")
_NO_VERB = {
    "A",
    "An",
    "The",
    "This",
    "That",
    "It",
    "No",
    "Not",
    "New",
    "Of",
    "In",
    "On",
    "For",
    "What",
    "Each",
    "All",
}
# git writes these, or removes them again.
_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def faults(message: str) -> list[str]:
    """Return what must be changed in a commit message, without the lines that git itself removes."""
    lines = [line for line in message.partition("\n# ---")[0].splitlines() if not line.startswith("#")]
    text = "\n".join(lines).strip()
    subject, _, body = text.partition("\n")
    if subject.startswith(_BY_GIT):
        return []
    wrong = []
    match = _SUBJECT.fullmatch(subject)
    if match is None:
        wrong.append(
            f"the subject is {subject!r}; expected 'area: Imperative verb ...', such as 'undo: Stop ...'"
        )
    else:
        verb = match["verb"]
        if not re.fullmatch(r"[A-Z][a-z]+[,:]?", verb) or verb in _NO_VERB:
            wrong.append(f"{verb!r} follows the area; expected a verb with a capital letter, such as 'Add'")
        elif _OTHER_FORM.fullmatch(verb) and verb not in _IMPERATIVE:
            wrong.append(
                f"{verb!r} is not imperative; expected the form that completes 'this commit will ...'"
            )
    if len(subject) > LONGEST:
        wrong.append(f"the subject has {len(subject)} characters; at most {LONGEST} are shown everywhere")
    if subject.endswith("."):
        wrong.append("the subject ends with a period; remove it")
    if body and not body.startswith("\n"):
        wrong.append("the second line has text; leave it empty, so that git separates subject and body")
    wrong += [f"idiom {hit}" for hit in found(text)]
    return wrong


def main() -> int:
    """Check the file that git names; print each fault to stderr."""
    wrong = faults(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for fault in wrong:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
