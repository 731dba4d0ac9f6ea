"""``memlock``: a non-interactive SSH session may lock memory, as every rank that registers RDMA buffers must.

Measured in the very session that mpirun will get, not in a configuration file.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterctl.facts.model import UNLIMITED
from clusterctl.requirements.base import Json, RestartUnit, Status, Step, Verdict, WriteFile
from clusterctl.requirements.rendering import render
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

NAME = "memlock"
TITLE = "SSH sessions may lock enough memory"

LIMITS = "/etc/security/limits.d/90-clusterctl-memlock.conf"


def _words(kib: int) -> str:
    return "unlimited" if kib == UNLIMITED else f"{kib} KiB"


def _wanted_kib(node: Node) -> int:
    wanted = node.requirements.memlock
    return UNLIMITED if wanted == "unlimited" else wanted


def _enough(kib: int, wanted_kib: int) -> bool:
    return kib == UNLIMITED or (wanted_kib != UNLIMITED and kib >= wanted_kib)


def _daemon(facts: NodeFacts) -> str | None:
    """The unit of the SSH server; Debian's own name first, since its other name is an alias."""
    return next(
        (unit for unit in ("ssh.service", "sshd.service") if facts.services.unit(unit) is not None), None
    )


def _overriding(facts: NodeFacts) -> tuple[str, ...]:
    """Files that pam_limits reads after ours and that set memlock again."""
    ours = PurePosixPath(LIMITS).name
    later = {
        line.path
        for line in facts.limits.configured
        if "/limits.d/" in line.path
        and "memlock" in line.text.split()
        and PurePosixPath(line.path).name > ours
    }
    return tuple(f"{path} sets memlock too, and is read later" for path in sorted(later))


def judge(facts: NodeFacts, node: Node) -> Verdict:
    """Met when the soft limit of the probe's own session is what the inventory asks for, or more."""
    reading = facts.limits.memlock
    if reading.value is None:
        return Verdict(NAME, Status.UNKNOWN, because("the memlock limit", reading))
    kib = UNLIMITED if reading.value.soft == UNLIMITED else reading.value.soft // 1024
    hard = UNLIMITED if reading.value.hard == UNLIMITED else reading.value.hard // 1024
    wanted = _wanted_kib(node)
    evidence: dict[str, Json] = {"soft": _words(kib), "hard": _words(hard), "wanted": _words(wanted)}
    if _enough(kib, wanted):
        return Verdict(NAME, Status.MET, f"memlock is {_words(kib)}", evidence)
    reason = f"memlock is {_words(kib)}, not {_words(wanted)}"
    if facts.in_container:
        reason += "; a container has its engine's limit: start it with --ulimit memlock=-1"
        return Verdict(NAME, Status.UNMET, reason, evidence)
    if _enough(hard, wanted):
        reason += " (the hard limit would allow it)"
    warnings = _overriding(facts)
    if node.connection == "local":
        warnings = (*warnings, "a session that is open keeps its limit: log in again after the change")
    return Verdict(NAME, Status.UNMET, reason, evidence, warnings)


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Raise the limit for PAM sessions, and for the SSH server itself where PAM is not used.

    Nothing in a container: pam_limits refuses the login when it may not raise a limit.
    """
    if judge(facts, node).status is not Status.UNMET or facts.in_container:
        return ()
    wanted = _wanted_kib(node)
    pam = "unlimited" if wanted == UNLIMITED else str(wanted)
    limits = render("apply", "limits-memlock.conf", value=pam)
    found: list[Step] = [WriteFile(f"Allow memlock {_words(wanted)} in {LIMITS}", LIMITS, limits)]
    daemon = _daemon(facts)
    if daemon is not None:
        path = f"/etc/systemd/system/{daemon}.d/90-clusterctl-memlock.conf"
        value = "infinity" if wanted == UNLIMITED else f"{wanted}K"
        drop_in = render("systemd", "memlock-drop-in.conf", value=value)
        found.append(WriteFile(f"Allow memlock {_words(wanted)} to {daemon}", path, drop_in))
        if node.connection != "local" or facts.managed_file(path) is None:
            found.append(RestartUnit(f"Restart {daemon} (open sessions stay)", daemon))
    return tuple(found)
