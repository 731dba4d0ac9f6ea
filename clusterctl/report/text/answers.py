"""What a command printed on the nodes: nodes with the same output share a block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.text.table import size
from clusterctl.transport.base import Completed

_HEAD = "--- "
# Other blanks and dashes look like those of a head.
_LIKE_A_HEAD = re.compile(r"[-\u2010-\u2015\u2212\u2500\u2501\ufe58\ufe63\uff0d]{3}\s")


def output(answers: Mapping[str, Completed]) -> str:
    """Return the standard output of all nodes: a head with the nodes and their status, then what they wrote."""
    return "\n".join(_blocks(answers, lambda done: (done.returncode, done.stdout, done.stdout_cut), _status))


def errors(answers: Mapping[str, Completed]) -> str:
    """Return the standard error of all nodes in the same form; empty if no node wrote any."""
    wrote = {name: done for name, done in answers.items() if done.stderr}
    return "\n".join(_blocks(wrote, lambda done: (done.stderr, done.stderr_cut), _stderr))


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
) -> Iterator[str]:
    alike = grouped((same(done), name) for name, done in answers.items())
    for names in alike.values():
        words, data, cut = shown(answers[names[0]])
        part = f", the first {size(len(data))} of {size(len(data) + cut)}" if cut else ""
        yield f"{_HEAD}{nodeset.fold_counted(names)}{words}{part}"
        if data:
            yield _quoted(data)


def _status(done: Completed) -> tuple[str, bytes, int]:
    ended = f", status {done.returncode}" if done.returncode else ""
    return ended + ("" if done.stdout else ", no output"), done.stdout, done.stdout_cut


def _stderr(done: Completed) -> tuple[str, bytes, int]:
    return ", stderr", done.stderr, done.stderr_cut


def _quoted(data: bytes) -> str:
    """Return output as text; a line that looks like a head is indented, so that no node can imitate another."""
    lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    return "\n".join(f" {line}" if _LIKE_A_HEAD.match(line) else line.removesuffix("\r") for line in lines)
