"""``explain``: report the errors in logs, with their causes and what to do."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from pydantic import TypeAdapter, ValidationError

from clusterctl import run_ids, rundir
from clusterctl.cli import console, named_inventory
from clusterctl.cli import options as cli
from clusterctl.errors import ConfigError, UsageError
from clusterctl.inventory.user_paths import is_folder, is_there
from clusterctl.report.known_errors.binary import BinaryLogError, refuse_binary
from clusterctl.text import user_files
from clusterctl.text.closest import closest

if TYPE_CHECKING:
    from clusterctl.report.known_errors.flight_recorder import RankDump
    from clusterctl.report.known_errors.scan import Scan

STANDARD_INPUT = "-"
_SHORTEST_PART = 4
_GZIP = b"\x1f\x8b"
_LOOKED_AT = 4096


def explain(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGFILE...",
            help="Logs, oldest first; '-': standard input; a directory, or a run (its id, a unique part of it, "
            "'latest'): all *.log files in it.",
            show_default=False,
        ),
    ],
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Explain the errors in logs: NCCL, MPI, CUDA, ssh, ...

    Reads also the JSON of ncclras and dumps of torch's flight recorder.

    Exit code 0: a cause was recognised; 1: none was (only symptoms, slow paths, notes or consequences, or nothing);
    3: a log cannot be read, or is a binary file.
    """
    from clusterctl.report.known_errors import topic_files
    from clusterctl.report.known_errors.scan import LEADING, Scan
    from clusterctl.report.text import explained

    if logs.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", hint="give '-' once")
    scan = Scan(topic_files.load())
    of_runs = []
    ended: list[str] = []
    dumps: list[RankDump] = []
    for given in logs:
        log = _folder_of_run(given, runs) or given
        own = _own_failures(log)
        if is_folder(log) and run_ids.is_id(Path(log).name):
            of_runs.append(rundir.RunDir(Path(log)))
        ended += own
        for name in _files(log, may_lack_logs=bool(own)):
            try:
                _read(scan, name, dumps)
            except BinaryLogError as error:
                if name == log:
                    raise
                console.talk(f"skipped: {error.message}")
    if dumps:
        _compare(scan, dumps)
    with named_inventory.of_run(of_runs[0]) if len(of_runs) == 1 else nullcontext():
        document = explained.to_document(scan.files, scan.findings, scan.left_over)
    if as_json:
        console.emit_json(document)
    else:
        width = min(140, console.width() or 100)
        console.data(explained.lines(document, ended, width=max(40, width)))
    raise typer.Exit(0 if any(found.role in LEADING for found in scan.findings) else 1)


def _folder_of_run(log: str, runs: Path | None) -> str | None:
    """Return the run folder that an argument names, if it names no file or directory; ``latest`` has logs."""
    if log == STANDARD_INPUT or is_there(log):
        return None
    from clusterctl.report.known_errors.run_logs import logs_below

    root = runs or rundir.default_root()
    known = [one for one in rundir.ids(root) if log != run_ids.LATEST or logs_below(root / one)]
    # Shorter texts are parts of many ids, and rather a mistyped file name.
    named = log == run_ids.LATEST or (len(log) >= _SHORTEST_PART and any(log in one for one in known))
    return str(root / run_ids.resolve(log, known, str(root))) if named else None


def _own_failures(log: str) -> list[str]:
    """Return the failures that a run recorded in its own result, with their hints; empty for other arguments."""
    from clusterctl.documents.evidence import Fault
    from clusterctl.report.text.failures import fault_lines

    path = Path(log)
    if not run_ids.is_id(path.name) or not is_folder(log):
        return []
    run = rundir.RunDir(path)
    kept = TypeAdapter(list[Fault])
    for stage in ("results", "preflight"):
        # A damaged result must not keep the logs from being read.
        with suppress(ConfigError, ValidationError):
            if run.holds(f"{stage}.json"):
                document = run.read(stage)
                proof = document.get("proof", document) if isinstance(document, dict) else None
                said = proof.get("failures") if isinstance(proof, dict) else None
                return list(fault_lines(kept.validate_python(said or [])))
    return []


def _files(log: str, *, may_lack_logs: bool = False) -> list[str]:
    """Return the files of an argument: the file itself, or the logs in a directory, the launcher's first."""
    if log == STANDARD_INPUT or not is_folder(log):
        return [log]
    from clusterctl.report.known_errors.run_logs import logs_below

    closed: list[OSError] = []
    found = [str(path) for path in logs_below(Path(log), closed.append, dumps=True)]
    for error in closed:
        console.talk(f"skipped: {error.filename}: {error.strerror}")
    if not found and not may_lack_logs:
        raise UsageError(f"{log}: no *.log file in this directory", hint="name the files themselves")
    return found


def _read(scan: Scan, name: str, dumps: list[RankDump]) -> None:
    """Read one log to its end, or a dump into ``dumps``.

    Raise BinaryLogError if it is neither text nor a dump, ConfigError if it cannot be read.
    """
    from clusterctl.report.known_errors import flight_recorder, ras

    shown = "standard input" if name == STANDARD_INPUT else name
    try:
        with _opened(name) as stream:
            beginning = stream.peek(_LOOKED_AT)[:_LOOKED_AT] if hasattr(stream, "peek") else b""
            if flight_recorder.looks_like_dump(beginning):
                dumps.append(_dump(scan, shown, stream.read(flight_recorder.MOST_BYTES + 1)))
                return
            refuse_binary(shown, stream)
            if beginning.lstrip().startswith(b"{") and ras.BEGINNING in beginning:
                content = stream.read(ras.MOST_BYTES)
                lines = ras.lines_of(content)
                if lines is not None:
                    scan.read_report(shown, lines, len(content))
                    return
                scan.read(shown, io.BytesIO(content))
                if len(content) == ras.MOST_BYTES:
                    scan.read(shown, stream, first=1 + content.count(b"\n"))
                return
            scan.read(shown, stream)
    except OSError as error:
        reason = error.strerror or str(error)
        meant = _meant(name) if isinstance(error, FileNotFoundError) else ""
        hint = user_files.hint_of(error, f"{meant}check that the file is a log that you may read")
        raise ConfigError(f"cannot read {name}: {reason}", hint=hint) from error


def _dump(scan: Scan, name: str, content: bytes) -> RankDump:
    """Read a dump of torch's flight recorder; raise BinaryLogError if it cannot be read."""
    from clusterctl.report.known_errors import flight_recorder
    from clusterctl.report.known_errors.scan import LogFile

    rank = flight_recorder.rank_of(name)
    hint = "give the dumps that torch wrote (TORCH_FR_DUMP_TEMP_FILE, then the rank), or JSON"
    if rank is None:
        raise BinaryLogError(
            f"{name} is a dump of torch's flight recorder, but its name ends without a rank", hint=hint
        )
    if len(content) > flight_recorder.MOST_BYTES:
        raise BinaryLogError(f"{name} is larger than {flight_recorder.MOST_BYTES >> 20} MiB", hint=hint)
    try:
        found = flight_recorder.read(rank, content)
    except flight_recorder.DumpError as error:
        left = "give the other dumps without it; a rank that dies while it writes leaves a part"
        raise BinaryLogError(f"cannot read {name}: {error}", hint=left) from error
    scan.files.append(LogFile(name, content.count(b"\n"), len(content)))
    return found


def _compare(scan: Scan, dumps: list[RankDump]) -> None:
    """Search the first calls in which the dumps differ.

    Dumps that cannot be compared are skipped if there are other logs, else raise UsageError.
    """
    from clusterctl.report.known_errors import flight_recorder

    ranks: dict[int, RankDump] = {}
    twice = sorted({one.rank for one in dumps if ranks.setdefault(one.rank, one) != one})
    if twice or len(ranks) < 2:
        message, hint = (
            (f"two different dumps are of rank {twice[0]}", "give the dumps of one job only")
            if twice
            else ("one rank's dump of the flight recorder cannot be compared", "give the dumps of all ranks")
        )
        if len(scan.files) == len(dumps):
            raise UsageError(message, hint=hint)
        console.talk(f"skipped: {message}; {hint}")
        return
    lines = flight_recorder.first_divergences(dumps)
    scan.read_report(f"flight recorder of {len(ranks)} ranks", lines, 0)


def _meant(name: str) -> str:
    """Return the run or the log beside a missing file that its name resembles, as the beginning of a hint."""
    path = Path(name)
    names: list[str] = []
    with suppress(OSError):
        names = sorted(one.name for one in path.parent.iterdir())
    near = closest(path.name, [run_ids.LATEST, *names], most=1)
    if not near:
        return ""
    return f"did you mean {near[0] if near[0] == run_ids.LATEST else path.with_name(near[0])}? "


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STANDARD_INPUT:
        with _unpacked(sys.stdin.buffer) as stream:
            yield stream
        return
    # Any size, because it is read in pieces; pipes, for a log that grows: the shell's <(tail -f LOG).
    with user_files.opened(name, pipes=True) as plain, _unpacked(plain) as stream:
        yield stream


@contextmanager
def _unpacked(plain: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the stream, decompressed if it is gzip."""
    if not (isinstance(plain, io.BufferedReader) and plain.peek(2)[:2] == _GZIP):
        yield plain
        return
    import gzip
    import zlib

    with gzip.GzipFile(fileobj=plain) as stream:
        try:
            yield stream  # type: ignore[misc]  # GzipFile reads as BinaryIO does
        except EOFError as error:
            raise OSError(None, "the compressed file is truncated") from error
        except zlib.error as error:
            raise OSError(None, f"the compressed file is damaged: {error}") from error
