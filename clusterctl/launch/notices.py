"""Parse the messages that launchers print when a rank dies or a node is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from clusterctl.text.visible import one_line

# Open MPI 5 wraps its messages.
_SIGNALS = (
    re.compile(
        r"(?:process rank|(?:local_spawn|agents): rank) (?P<rank>\d{1,9})\b[^\[\]]{0,300}?\son\s+(?:node\s+)?\S+\s+"
        r"exited\s+on\s+signal\s+(?P<signal>\d{1,9})\b"
    ),
)
# srun prints the signal in words (strsignal(3), or its own after an out-of-memory kill), and reports the cause before
# the tasks that it kills itself.
_SLURM = re.compile(
    r"srun: error: \S+: tasks? (?P<rank>\d{1,9})(?:[-,][-,\d]*)?: "
    r"(?:Exited with exit code (?P<code>\d{1,9})\b|(?P<word>[A-Z][A-Za-z ]+))"
)
_SLURM_WORDS = {
    "Killed": 9, "Out Of Memory": 9, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Illegal instruction": 4,
}  # fmt: skip
_STATUSES = (
    # [[30393,1],1] in Open MPI 4, [prterun-host-2805@1,1] in 5.
    re.compile(
        r"Process name: \[[^\n]{0,200},(?P<rank>\d{1,9})\]\s{1,80}Exit code:\s{1,80}(?P<code>\d{1,9})\b"
    ),
    re.compile(
        r"(?:local_spawn|hydra_rank|program_rank|agents): rank (?P<rank>\d{1,9}) (?:\(pid \d{1,9}\) )?on \S+ "
        r"exited with status (?P<code>\d{1,9})\b"
    ),
)
_DAEMON = re.compile(
    r"(?:lost communication with a remote daemon|ORTE daemon has unexpectedly failed|unable to reliably start"
    r"|daemon failed to report back|Launch proxy failed|Node failure on \S+)",
    re.IGNORECASE,
)
_REMOTE = re.compile(
    r"(?:Remote (?:daemon:\s{0,80}\[[^\n]{0,200}\] on node|host:)\s{1,80}|Node failure on )(?P<node>\S+)"
)
# What ranks report when the connection to another one ends, or another one does not answer: the texts of
# collective_core, Gloo, torch's store, NCCL, MPICH, Open MPI and UCX.
_LOST_PEER = tuple(
    re.compile(pattern)
    for pattern in (
        r"\brank (?P<rank>\d{1,9}) \(host \S{1,255}, pid \d{1,9}\) died or cannot be reached",
        r"\brank (?P<rank>\d{1,9})(?: \(host \S{1,255}, pid \d{1,9}\))? destroyed its communicator ",
        r"\brank (?P<rank>\d{1,9}) \(from \S{1,255}\) (?P<meeting>died during initialisation)",
        r"\bthe rendezvous of rank (?P<rank>0) closed the connection",
        r"did not end within its timeout of [^\n;]{1,60}; it waits(?: for data from rank (?P<rank>\d{1,9}))?",
        r"no answer at the deadline from rank (?P<rank>\d{1,9})",
        r"still missing at the deadline: ",
        (
            r"gloo/transport/\w{1,9}/\w{1,40}\.cc:\d{1,5}\] "
            r"(?:(?:Connection closed by peer|(?:Read|Write) (?:error|timeout)|(?:readv?|writev?|recv|send)) "
            r"\[(?P<place>[^\]\s]{1,100})\]|Timed out waiting|Application timeout caused pair closure)"
        ),
        r"(?:recv|send)\w{1,40} failed on SocketImpl\([^\n]{0,200}?remote=\[(?P<place>[^\]\s]{1,100})\]",
        r"Connection was likely closed\. Did the remote server shutdown or crash\?",
        r"Connection closed by remote peer (?P<place>[^\s<]{1,100})<",
        r"Call to (?:recv from|send to) (?P<place>[^\s<]{1,100})<\d{1,5}> failed ?: (?:Connection reset|Broken pipe)",
        r"remote process exited or there was a network error",
        r"network error or a remote process exiting prematurely",
        r"Watchdog caught collective operation timeout",
        r"Communication error with rank (?P<rank>\d{1,9})",
        (
            r"MPI communication peer process has unexpectedly disconnected\.(?:[^\n]{0,200}\n){1,15}?"
            r"\s{0,9}Peer host:\s{1,9}(?P<place>\S{1,100})"
        ),
        r"mca_btl_tcp_\w{1,40}: (?:readv|writev) (?:failed|error)[^\n]{0,80}(?:Connection reset|Broken pipe)",
        r"UCX\s{1,4}ERROR [^\n]{0,300}(?:Connection reset by remote peer|Endpoint timeout)",
    )
)
_REFUSED_RANK = re.compile(
    r"\brank (?P<rank>\d{1,9}) sent a value that is not valid here: (?P<why>[^;\n]{1,300})"
)
# What collective_core reports when ranks call different operations: each rank that notices it ends with this error.
_OUT_OF_STEP = re.compile(r"\bdesync(?: error)?: (?P<why>ranks called different operations: [^\n]{1,300})")
_LOG_LINE = re.compile(r" NCCL (?:INFO|WARN) |^\[W\d{3,4} |^\[rank\d{1,7}\]:\[W\d{3,4} ")
_RULE = re.compile(r"[-=| ]*")
_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"^(?:\[rank\d{1,7}\]: ?)?[A-Za-z_][\w.]{0,200}(?:Error|Exception)\b[^\n]{0,400}", re.MULTILINE
)
_FRAMED = re.compile(r"^-{60,}\n.*?\n-{60,}$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class RankDeath:
    """Hold the first rank that failed, with its signal or its exit status."""

    rank: int
    signal: int | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class LostPeer:
    """Hold what a rank reports about the rank that it lost: its number, or its address or host name, or neither.

    collective_core checks the number when ranks meet. An address is what the other rank itself published. ``meeting``:
    it died while ranks met, which rank 0 alone sees; the others have it from rank 0.
    """

    rank: int | None = None
    place: str | None = None
    meeting: bool = False


def rank_death(text: str) -> RankDeath | None:
    """Return the rank that the launcher reports; a rank killed by a signal takes precedence over an exit status."""
    for pattern in _SIGNALS:
        if match := pattern.search(text):
            return RankDeath(int(match["rank"]), signal=int(match["signal"]))
    if slurm := _slurm_death(text):
        return slurm
    deaths = [
        RankDeath(int(match["rank"]), status=int(match["code"]))
        for pattern in _STATUSES
        for match in pattern.finditer(text)
    ]
    deaths = [_by_a_shell(death) for death in deaths]
    killed = [death for death in deaths if death.signal is not None]
    return next(iter(killed or deaths), None)


def _by_a_shell(death: RankDeath) -> RankDeath:
    """Return the death of a rank below a shell, which reports a signal as 128 plus its number."""
    if death.status is not None and 128 < death.status < 160:
        return RankDeath(death.rank, signal=death.status - 128)
    return death


def _slurm_death(text: str) -> RankDeath | None:
    deaths = []
    for match in _SLURM.finditer(text):
        if match["code"] is not None:
            deaths.append(RankDeath(int(match["rank"]), status=int(match["code"])))
        elif number := _SLURM_WORDS.get(match["word"].removesuffix(" core dumped").strip()):
            return RankDeath(int(match["rank"]), signal=number)
    return _by_a_shell(deaths[0]) if deaths else None


def lost_peer(text: str) -> LostPeer | None:
    """Return the peer that the rank with this output reports as dead or unreachable; None if it ended otherwise."""
    if _TRACEBACK in text:
        # A rank that ends for a reason of its own closes its connections, and NCCL's threads log that.
        text = "\n".join(line for line in text.splitlines() if not _LOG_LINE.search(line))
    found = [
        (match.start(), _peer_of(said))
        for pattern in _LOST_PEER
        if (match := pattern.search(text)) is not None and (said := match.groupdict()) is not None
    ]
    # The first one that names its peer, because what follows is often a consequence.
    named = [one for one in found if one[1] != LostPeer()]
    return min(named or found, key=lambda one: one[0])[1] if found else None


def _peer_of(said: Mapping[str, str | None]) -> LostPeer:
    rank = said.get("rank")
    return LostPeer(int(rank) if rank else None, said.get("place"), bool(said.get("meeting")))


def refused_rank(text: str) -> tuple[int, str] | None:
    """Return the rank whose value the rank with this output refused, and why (``workloads/rank_values.py``)."""
    match = _REFUSED_RANK.search(text)
    return (int(match["rank"]), one_line(match["why"], 200)) if match else None


def out_of_step(text: str) -> str | None:
    """Return what the rank with this output reports about ranks that called different operations."""
    match = _OUT_OF_STEP.search(text)
    return one_line(match["why"], 200) if match else None


def lost_daemon(text: str) -> bool:
    """Tell whether the launcher reported that it lost its daemon on a node."""
    return _DAEMON.search(text) is not None


def daemon_node(text: str) -> str | None:
    """Return the node of the lost daemon, by name or address, if the launcher reports it."""
    match = _REMOTE.search(text)
    return match["node"].rstrip(".,;:") if match else None


def gave_up(text: str) -> bool:
    """Tell whether the launcher reported that it aborts the job."""
    return (
        "Force Terminated" in text
        or "the job has been aborted" in text
        or "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES" in text
        or lost_daemon(text)
    )


def only_a_status(text: str) -> bool:
    """Tell whether the launcher only reported that ranks failed, and neither which rank nor why."""
    said = " ".join(last_words(text).split())
    return not said or "process returned a non-zero exit code" in said or "MPI_ABORT was invoked" in said


def last_words(text: str) -> str:
    """Return the line of the last exception, or the last line with text without NCCL's INFO lines.

    It has at most 200 visible characters. If Open MPI's framed help text is last, return all of it in one line, because
    its first lines hold the cause.
    """
    framed = _FRAMED.findall(text)
    if (
        framed
        and text.rstrip().endswith(framed[-1].rstrip())
        and (said := " ".join(framed[-1].split()[1:-1]))
    ):
        return one_line(said, 200)
    if raised := _EXCEPTION.findall(text.rpartition(_TRACEBACK)[2] if _TRACEBACK in text else ""):
        return one_line(str(raised[0]).strip(), 200)
    lines = [
        line.strip() for line in text.splitlines() if not _RULE.fullmatch(line) and " NCCL INFO " not in line
    ]
    return one_line(lines[-1], 200) if lines else ""
