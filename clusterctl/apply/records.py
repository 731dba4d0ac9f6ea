"""Parse the runner's output: one line per event, marked with a nonce that separates it from other output."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import Enum

from clusterctl.text.secret.scrub import scrubbed


class Event(str, Enum):
    """The event of a record. Records with number 0 concern the whole run."""

    PLANNED = "planned"
    """Written by the controller before it starts a node's runner: the keys of the steps. Nodes never send it."""
    START = "start"
    """The runner has started; the detail is the node's boot ID."""
    JOURNAL = "journal"
    """A journal entry of an earlier part of this run: its state and key."""
    RUN = "run"
    ENTRY = "entry"
    NOTHING = "nothing"
    UNKNOWN = "unknown"
    """The node's journal does not have the requested run; one ``KNOWN`` per existing run follows."""
    KNOWN = "known"
    REFUSED = "refused"
    WOULD = "would"
    """What undo does with an entry: a sign (``-``, ``~``, or ``.`` for no change) and a sentence."""
    PRIOR = "prior"
    """The text that undo restores; only in a list, followed by ``PRESENT``, the text that the file has now."""
    PRESENT = "present"
    BEGIN = "begin"
    NOTE = "note"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"
    REBOOTING = "rebooting"
    """This step reboots the node; the detail is the boot ID before the reboot."""
    DONE = "done"


_IN_WORDS_OF_TOOLS = (Event.NOTE, Event.FAILED, Event.WOULD)
"""Events whose detail quotes tools: dnf, for one, prints repository URLs with credentials, and records go to disk."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One event of one step (``number``; 0: the run)."""

    number: int
    event: Event
    detail: str = ""


def _detail(word: str) -> str:
    # Base64 never begins with "=", so that prefix marks a plain word.
    if word.startswith("="):
        return word[1:]
    return base64.b64decode(word, validate=True).decode(errors="replace")


def parse(line: str, nonce: str) -> JournalRecord | None:
    """Return the record in a line, or None if the line does not belong to this runner."""
    # sudo, a banner without a newline or a shell's start-up file may print text before the mark.
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
    return JournalRecord(int(words[0]), event, detail)
