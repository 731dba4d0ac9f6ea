"""The rows of CPU and memory, measured by stress-ng."""

from __future__ import annotations

from clusterctl.acceptance.model import AcceptRow, NodeProgram, RowCommand, RowPlace, RowTool, Tier
from clusterctl.acceptance.outputs import stress_ng

_STRESS_NG = RowTool("stress-ng", "install the package stress-ng")
# stress-ng writes its metrics to a file, and fails with 2 if a result was wrong: its messages then tell which one.
_SCRIPT = """\
stress-ng "$@" --metrics --yaml metrics.yaml --temp-path . 2>&1
status=$?
cat metrics.yaml
exit "$status"
"""
_STATUSES = frozenset({0, 2})


def stress_ng_command(*words: str) -> RowCommand:
    """Return the command that runs stress-ng and prints its messages, then its metrics."""
    return RowCommand(("sh", "-c", _SCRIPT, "sh", *words))


def _memory_rate(_: RowPlace) -> RowCommand:
    # One worker on each core that this process may use.
    return stress_ng_command("--stream", "0", "--timeout", "10")


def _verified(seconds: int) -> AcceptRow:
    def command(_: RowPlace) -> RowCommand:
        return stress_ng_command(
            "--cpu", "0", "--vm", "2", "--vm-bytes", "10%", "--verify", "--timeout", str(seconds)
        )

    long = seconds >= 60
    work = NodeProgram(command, stress_ng.verified, 2.0 * seconds + 60.0, (_STRESS_NG,), statuses=_STATUSES)
    return AcceptRow(
        "cpu-soak" if long else "cpu-verify", f"CPU and memory compute for {seconds} s, results verified",
        Tier.STRESS if long else Tier.VALIDATION, work,
    )  # fmt: skip


ROWS = (
    _verified(10),
    AcceptRow(
        "cpu-memory", "memory bandwidth of all cores", Tier.PERFORMANCE,
        NodeProgram(_memory_rate, stress_ng.memory_rate, 90.0, (_STRESS_NG,), statuses=_STATUSES),
    ),
    _verified(600),
)  # fmt: skip
