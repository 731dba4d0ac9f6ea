"""The words of documents that stages use too; without pydantic, so that every module can import them quickly."""

from __future__ import annotations

from enum import Enum
from typing import Literal

SampleUnit = Literal["image", "sequence", "sample", "token"]
"""What the rates of trainings count; ``sample``: a program of the user that does not say it."""


class FailureKind(str, Enum):
    """Name the kinds of errors that keep a node from answering."""

    DNS = "dns"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    AUTH = "auth"
    SUDO = "sudo"
    LOST = "lost"
    DEADLINE = "deadline"
    PROTOCOL = "protocol"
    ERROR = "error"

    @property
    def answered(self) -> bool:
        """Whether the node could be reached, so that the error is not one of the connection."""
        return self in (FailureKind.SUDO, FailureKind.DEADLINE, FailureKind.PROTOCOL, FailureKind.ERROR)


class FaultKind(str, Enum):
    """Name what can be wrong with a run."""

    CRASHED = "crashed"
    UNPARSABLE = "unparsable"
    FEWER_RANKS = "fewer-ranks"
    DUPLICATE_RANKS = "duplicate-ranks"
    WRONG_RESULTS = "wrong-results"
    NAN_LOSS = "nan-loss"
    REPLICAS_DIFFER = "replicas-differ"
    RATES_DIFFER = "rates-differ"
    SLOW_PATH = "slow-path"
    SETTING_UNPROVEN = "setting-unproven"
    LIBRARY_UNPROVEN = "library-unproven"
    RANK_DIED = "rank-died"
    DEADLINE = "deadline"
    NODE_LOST = "node-lost"
    NODE_UNREACHABLE = "node-unreachable"
    MISSING_PROGRAM = "missing-program"
    MESH = "ssh-mesh"
    MEMLOCK = "memlock"
    LAUNCHER = "launcher"
    INTERRUPTED = "interrupted"


class Effect(str, Enum):
    """What an event of the hardware means for a run during which it happened."""

    NOTE = "note"
    """Expected under load, or without effect on figures."""
    DOUBTFUL = "doubtful"
    """The figures may not be those of healthy hardware."""
    GRAVE = "grave"
    """The hardware is at fault: take it out of service."""


class VerdictStatus(str, Enum):
    """Name the verdicts on a requirement."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


class VerdictOwner(str, Enum):
    """Name who meets an unmet requirement."""

    YOU = "you"
    """A person: there is no step."""
    BOOTSTRAP = "bootstrap"
    """``bootstrap``, in its first round or in a later one."""


class AppliedStatus(str, Enum):
    """Name what became of a step.

    ``unchanged``: the node needs no change. ``skipped``: the change is needed and was not begun; the reason says why.
    """

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"
    PLANNED = "planned"


class ErrorRole(str, Enum):
    """Name what a known error is in a failure."""

    FAULT = "fault"
    """Hardware, driver or kernel report a defect; listed first."""
    CAUSE = "cause"
    """A state or setting that ends the run, which the line itself states."""
    SYMPTOM = "symptom"
    """A failure whose line does not state the cause; several are possible."""
    SLOW_PATH = "slow-path"
    """The run continues, but slower than possible."""
    NOTE = "note"
    """Further information; rarely the reason why a run ended."""
    CONSEQUENCE = "consequence"
    """The result of another failure, on this rank or another."""

    @property
    def rank(self) -> int:
        """Return the place in the order of causes; 0 is first."""
        return list(ErrorRole).index(self)


class ComparisonWord(str, Enum):
    """Tell how a figure compares with that of the first run."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "within noise"
    UNDECIDED = "undecided"
    """All repeats of one side are faster than all of the other, but they are too few to tell this from noise."""
    ONCE = "measured once"


class Compatibility(str, Enum):
    """Tell whether a library fits the base image."""

    FITS = "fits"
    REFUSED = "refused"
    UNKNOWN = "unknown"
