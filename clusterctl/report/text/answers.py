"""What a command printed on the nodes: nodes with the same output share a block."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone, TonedLine
from clusterctl.report.text.table import size
from clusterctl.text.grouping import grouped
from clusterctl.transport.base import Completed

_HEAD = "--- "
_LIKE_A_HEAD = re.compile(r"---(?!-|$)")
# Not of the category Pd, but shown as a dash; dashes of double and triple width.
_DASHES = dict.fromkeys("\u02d7\u2043\u207b\u208b\u2212\u2500\u2501\u2796\u30fc\u3161\u4e00\uff70", "-")
_DASHES |= {"\u2e3a": "--", "\u2e3b": "---"}
_UNSEEN = ("Mn", "Me", "Cf")


def output(answers: Mapping[str, Completed]) -> list[TonedLine]:
    """Return the standard output of all nodes: a head with the nodes and their status, then what they wrote."""
    return list(_blocks(answers, lambda done: (done.returncode, done.stdout, done.stdout_cut), _status))


def errors(answers: Mapping[str, Completed]) -> list[TonedLine]:
    """Return the standard error of all nodes in the same form; empty if no node wrote any."""
    wrote = {name: done for name, done in answers.items() if done.stderr}
    return list(_blocks(wrote, lambda done: (done.stderr, done.stderr_cut), _stderr))


def statuses(answers: Mapping[str, Completed]) -> str:
    """Return which nodes ended with which status; empty if all ended with 0."""
    found = grouped((done.returncode, name) for name, done in answers.items())
    if not any(found):
        return ""
    return "; ".join(f"status {status}: {nodeset.fold_counted(found[status])}" for status in sorted(found))


def streamed(name: str, line: str) -> str:
    """Return one line of a node as it is printed while the command runs."""
    return f"{name}: {line.rstrip(chr(13))}"


def _blocks(
    answers: Mapping[str, Completed],
    same: Callable[[Completed], object],
    shown: Callable[[Completed], tuple[str, bytes, int]],
) -> Iterator[TonedLine]:
    alike = grouped((same(done), name) for name, done in answers.items())
    for names in alike.values():
        words, data, cut = shown(answers[names[0]])
        part = f", the first {size(len(data))} of {size(len(data) + cut)}" if cut else ""
        text = f"{_HEAD}{nodeset.fold_counted(names)}"
        tone = Tone.BAD if answers[names[0]].returncode else Tone.FAINT
        whole = f"{text}{words}{part}"
        yield TonedLine(whole, ((len(_HEAD), len(text), Tone.NAME), (len(text), len(whole), tone)))
        if data:
            yield TonedLine(_quoted(data))


def _status(done: Completed) -> tuple[str, bytes, int]:
    ended = f", status {done.returncode}" if done.returncode else ""
    return ended + ("" if done.stdout else ", no output"), done.stdout, done.stdout_cut


def _stderr(done: Completed) -> tuple[str, bytes, int]:
    return ", stderr", done.stderr, done.stderr_cut


def _quoted(data: bytes) -> str:
    """Return output as text; a line that looks like a head is indented, so that no node can imitate another."""
    lines = (line.removesuffix("\r") for line in data.decode(errors="replace").removesuffix("\n").split("\n"))
    return "\n".join(f" {line}" if _is_like_a_head(line) else line for line in lines)


def _is_like_a_head(line: str) -> bool:
    """Return whether a line begins like a head on a terminal, with dashes, blanks and marks of any script."""
    if not line or (line[0].isascii() and line[0] != "-"):
        return False
    seen = islice((one for one in line if unicodedata.category(one) not in _UNSEEN), len(_HEAD))
    shown = (_DASHES.get(one, "-" if unicodedata.category(one) == "Pd" else one) for one in seen)
    return _LIKE_A_HEAD.match("".join(shown)) is not None
