"""What the runner says: one marked line per event, told apart from all other noise by its nonce."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import Enum

from clusterctl.secret.scrub import scrubbed


class Event(str, Enum):
    """What a record tells. Those with number 0 speak of the whole run."""

    PLANNED = "planned"
    """What the controller is about to have done on a node: the keys of the steps. No node says it."""
    START = "start"
    """The runner is at work; the detail is the node's boot id."""
    JOURNAL = "journal"
    """An entry that an earlier part of this run left: its state and key."""
    RUN = "run"
    ENTRY = "entry"
    NOTHING = "nothing"
    UNKNOWN = "unknown"
    """The node's journal has no such run; those that it has follow, each as ``KNOWN``."""
    KNOWN = "known"
    REFUSED = "refused"
    BEGIN = "begin"
    NOTE = "note"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"
    REBOOTING = "rebooting"
    """The node will boot anew by this step; the detail is the boot id that ends with it."""
    DONE = "done"


_IN_WORDS_OF_TOOLS = (Event.NOTE, Event.FAILED)
"""dnf, for one, names the repository that it cannot reach with its login, and records go to disk."""


@dataclass(frozen=True, slots=True)
class Record:
    """One event of one step (``number``; 0: the run)."""

    number: int
    event: Event
    detail: str = ""


def _detail(word: str) -> str:
    # Base64 begins with no "=": behind one stands a word as it is.
    if word.startswith("="):
        return word[1:]
    return base64.b64decode(word, validate=True).decode(errors="replace")


def parse(line: str, nonce: str) -> Record | None:
    """Return the record in a line, or None when the line is not one of this runner's."""
    # sudo, a banner without a newline or a shell's start-up file may have put text before the mark.
    _, mark, rest = line.partition(f"@{nonce} ")
    words = rest.rstrip("\r\n").split(" ")
    if not mark or len(words) < 2 or not words[0].isdecimal() or len(words[0]) > 9:
        return None
    try:
        event = Event(words[1])
        detail = _detail(words[2] if len(words) > 2 else "")
        if event in _IN_WORDS_OF_TOOLS:
            detail = scrubbed(detail)
    except (ValueError, binascii.Error):
        return None
    return Record(int(words[0]), event, detail)
