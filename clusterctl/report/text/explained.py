"""Known errors found in logs, with explanations, as text for people and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clusterctl.documents.explain import Explain, KnownCause, KnownError, LogRead, Origin, UnexplainedLine
from clusterctl.documents.explain import LogLine as ShownLine
from clusterctl.documents.kinds import ErrorRole
from clusterctl.inventory import nodeset
from clusterctl.report.known_errors import line_readings
from clusterctl.report.known_errors.scan import LEADING, LogFile, LogLine, Occurrence
from clusterctl.report.line import Tone, TonedLine, whole
from clusterctl.report.text.wrapping import below
from clusterctl.text.wording import counted

_TITLES = {
    ErrorRole.FAULT: "Broken (look here first)",
    ErrorRole.CAUSE: "Likely causes",
    ErrorRole.SYMPTOM: "What failed; the line does not state why",
    ErrorRole.SLOW_PATH: "Slower than it could be",
    ErrorRole.NOTE: "Worth knowing",
    ErrorRole.CONSEQUENCE: "Consequences of something else",
}
_SHOWN_PLACES = 40


def numbers(values: Iterable[int]) -> str:
    """Return numbers with consecutive ones folded into ranges: ``0-3,8``."""
    parts: list[str] = []
    run: list[int] = []
    for value in [*sorted(values), None]:
        if value is not None and run and value == run[-1] + 1:
            run.append(value)
            continue
        if run:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        run = [] if value is None else [value]
    return ",".join(parts)


def to_document(
    files: Iterable[LogFile], findings: Iterable[Occurrence], left_over: Iterable[LogLine]
) -> dict[str, Any]:
    """Return the findings as a ``clusterctl.explain/1`` document, likely root causes first."""
    found = list(findings)
    return Explain(
        files=tuple(LogRead(name=f.name, lines=f.lines, size_bytes=f.size_bytes) for f in files),
        findings=tuple(
            KnownError(
                id=finding.entry.id,
                role=finding.role,
                tool=finding.entry.tool,
                count=finding.count,
                first=_line(finding.first),
                last=_line(finding.last),
                hosts=tuple(finding.hosts),
                ranks=tuple(sorted(finding.ranks)),
                gpus=tuple(finding.gpus),
                may_follow=_origin(finding.origin),
                meaning=finding.entry.meaning,
                cause=finding.entry.cause,
                fix=finding.entry.fix,
                sources=finding.entry.sources,
                requirement=finding.entry.requirement,
                check=finding.entry.how_to_check,
            )
            for finding in found
        ),
        unexplained=tuple(map(_unexplained_line, left_over)),
        summary={role: sum(f.role is role for f in found) for role in ErrorRole},
    ).document()


def _line(line: LogLine) -> ShownLine:
    return ShownLine(file=line.file, line=line.number, text=line.text)


def _origin(found: Occurrence | None) -> Origin | None:
    return (
        None if found is None else Origin(id=found.entry.id, file=found.first.file, line=found.first.number)
    )


def _unexplained_line(line: LogLine) -> UnexplainedLine:
    shown = UnexplainedLine(file=line.file, line=line.number, text=line.text)
    reading = line_readings.read(line.text)
    if reading is None:
        return shown
    return shown.model_copy(update={"says": reading.says, "next": reading.next, "source": reading.source})


def _places(finding: dict[str, Any], several_files: bool) -> str:
    first, last = finding["first"], finding["last"]
    place = f"line {first['line']}"
    if several_files:
        place = f"{first['file']}:{first['line']}"
    if finding["count"] > 1:
        end = f"{last['file']}:{last['line']}" if last["file"] != first["file"] else str(last["line"])
        place += f", {finding['count']} times, last at {end}"
    if finding["hosts"]:
        shown = finding["hosts"][:_SHOWN_PLACES]
        more = len(finding["hosts"]) - len(shown)
        place += f"; on {nodeset.fold(shown)}" + (f" and {more} more" if more else "")
    if finding["ranks"]:
        shown_ranks = finding["ranks"][:_SHOWN_PLACES]
        more = len(finding["ranks"]) - len(shown_ranks)
        word = "rank" if len(finding["ranks"]) == 1 else "ranks"
        place += f"; {word} {numbers(shown_ranks)}" + (f" and {more} more" if more else "")
    if finding["gpus"]:
        shown = finding["gpus"][:_SHOWN_PLACES]
        more = len(finding["gpus"]) - len(shown)
        word = "GPU" if len(finding["gpus"]) == 1 else "GPUs"
        place += f"; {word} {', '.join(shown)}" + (f" and {more} more" if more else "")
    return place


def cause_lines(cause: KnownCause) -> list[str]:
    """Return the cause of a failed run, or what is possible: what it is, its fix, and the line of the log."""
    where = nodeset.fold(cause.hosts[:_SHOWN_PLACES])
    label = "cause" if cause.role in LEADING else "possible causes"
    return [
        f"{label}: {cause.id}{f' on {where}' if where else ''}: {cause.cause}",
        f"fix: {cause.fix}",
        f"log: {cause.log.file}:{cause.log.line}: {cause.log.text}",
    ]


def _in_full(finding: dict[str, Any], width: int, several_files: bool) -> Iterator[TonedLine]:
    yield _head(finding, several_files)
    yield whole(f"  | {finding['first']['text']}", Tone.OPEN)
    cause = "may be" if finding["role"] == ErrorRole.SYMPTOM.value else "cause"
    for label, key in (("means", "meaning"), (cause, "cause"), ("fix", "fix"), ("check", "check")):
        yield from _labelled(label, finding[key] or "", width, indent=2)
    yield from (TonedLine(f"  source {source}", ((2, 8, Tone.FAINT),)) for source in finding["sources"])


def _head(finding: dict[str, Any], several_files: bool) -> TonedLine:
    text = f"* {finding['id']} ({finding['tool']}): {_places(finding, several_files)}"
    if origin := finding.get("may_follow"):
        place = f"{origin['file']}:{origin['line']}" if several_files else f"line {origin['line']}"
        text += f"; may follow from {place} ({origin['id']})"
    return TonedLine(text, ((2, 2 + len(finding["id"]), Tone.NAME),))


def lines(document: dict[str, Any], ended: Sequence[str] = (), *, width: int = 100) -> list[TonedLine]:
    """Return a ``clusterctl.explain/1`` document for people; consequences take one line each if a cause was found.

    ``ended``: the failures in the results of the runs whose logs were read.
    """
    several = len(document["files"]) > 1
    findings = document["findings"]
    read = ", ".join(f"{file['name']} ({counted(file['lines'], 'line')})" for file in document["files"][:8])
    if len(document["files"]) > 8:
        read += f" and {len(document['files']) - 8} more"
    found = [TonedLine(f"read {read or 'nothing'}")]
    roles = {ErrorRole(finding["role"]) for finding in findings}
    causes_known = not roles.isdisjoint(LEADING)
    if ended:
        found += [
            TonedLine(""),
            whole("The run's own result:", Tone.HEAD),
            *(TonedLine(f"  {line}") for line in ended),
        ]
    if not document["files"]:
        found += [TonedLine(""), TonedLine("The run has no log, because it ended before a launch.")]
    elif not findings:
        found += [TonedLine(""), TonedLine("The catalogue of known errors matches no line.")]
    elif roles == {ErrorRole.CONSEQUENCE} and not ended:
        found += [TonedLine(""), TonedLine("The cause is not in the catalogue; only its consequences are.")]
    unexplained = _unexplained(document["unexplained"], width, several, causes_known=causes_known)
    for role, title in _TITLES.items():
        here = [finding for finding in findings if finding["role"] == role.value]
        if role is ErrorRole.SLOW_PATH and not causes_known:
            found += unexplained
        if not here:
            continue
        found += [TonedLine(""), whole(f"{title}:", Tone.BAD if role is ErrorRole.FAULT else Tone.HEAD)]
        for finding in here:
            if role is ErrorRole.CONSEQUENCE and causes_known:
                found.append(_head(finding, several))
                found += map(TonedLine, below("  ", finding["meaning"], 2, width))
                if "may_follow" in finding:
                    found += _labelled("fix", finding["fix"], width, indent=2)
            else:
                found += _in_full(finding, width, several)
    return [*found, *(unexplained if causes_known else [])]


def _unexplained(
    lines: Sequence[dict[str, Any]], width: int, several: bool, *, causes_known: bool
) -> list[TonedLine]:
    """Return the lines that may show the cause or another one, in the order of the logs, and what they state."""
    if not lines:
        return []
    title = (
        "Other lines that look like errors and are not in the catalogue:"
        if causes_known
        else "Lines that look like errors and are not in the catalogue, possibly the cause:"
    )
    found = [TonedLine(""), whole(title, Tone.HEAD)]
    said: set[str] = set()
    for one in lines:
        place = f"{one['file']}:{one['line']}" if several else f"line {one['line']}"
        found.append(whole(f"  {place}: {one['text']}", Tone.OPEN))
        if one["says"] and one["says"] not in said:
            said.add(one["says"])
            for label in ("says", "next"):
                found += _labelled(label, one[label], width, indent=4)
    return found


def _labelled(label: str, text: str, width: int, *, indent: int) -> Iterator[TonedLine]:
    """Return the lines of a text beside its label, which is faint."""
    start = " " * indent
    for number, line in enumerate(below(f"{start}{label:<7}", text, indent + 7, width)):
        yield TonedLine(line) if number else TonedLine(line, ((indent, indent + len(label), Tone.FAINT),))
