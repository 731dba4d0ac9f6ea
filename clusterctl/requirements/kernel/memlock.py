"""``memlock``: a non-interactive SSH session may lock the memory that ranks register as RDMA buffers.

The limit is measured in the kind of session that mpirun gets, not read from a configuration file.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterctl.facts.model.host import UNLIMITED
from clusterctl.requirements.base import Json, Status, Verdict
from clusterctl.requirements.containers import daemon_json
from clusterctl.requirements.kernel import session_limits
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import RestartUnit, Step, WriteFile
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "memlock"
TITLE = "SSH sessions may lock enough memory"
READS = frozenset({"configuration", "docker", "limits", "services", "storage", "system"})

_ROOT = "root"
"""Our file has a line for root too, because wildcards do not apply to root; of such lines the last takes effect."""

LIMITS = "/etc/security/limits.d/90-clusterctl-memlock.conf"


def _words(kib: int) -> str:
    return "unlimited" if kib == UNLIMITED else f"{kib} KiB"


def _wanted_kib(node: Node) -> int:
    wanted = node.requirements.memlock
    return UNLIMITED if wanted == "unlimited" else wanted


def _enough(kib: int, wanted_kib: int) -> bool:
    return kib == UNLIMITED or (wanted_kib != UNLIMITED and kib >= wanted_kib)


def _daemon(facts: NodeFacts) -> str | None:
    """Return the unit of the SSH server; Debian's own name first, because its other name is an alias."""
    return next(
        (unit for unit in ("ssh.service", "sshd.service") if facts.services.unit(unit) is not None), None
    )


def _overriding(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return warnings about lines that pam_limits prefers to ours: in later files, or for the account or a group."""
    ours = PurePosixPath(LIMITS).name
    later: set[str] = set()
    special: set[str] = set()
    for line in facts.limits.configured:
        words = line.text.split()
        if "memlock" not in words or words[-1] in ("unlimited", "infinity", "-1") or line.path == LIMITS:
            continue
        if "/limits.d/" in line.path and PurePosixPath(line.path).name > ours:
            later.add(f"{line.path} also sets memlock and is read later")
        elif words[0].startswith(("@", "%")) or words[0] == node.user != _ROOT:
            special.add(
                f"{line.path} sets memlock for {words[0]}, which takes precedence over the wildcard"
                " (limits.conf(5))"
            )
    return (*sorted(later), *sorted(special))


def _without_pam(facts: NodeFacts) -> str | None:
    """Return why SSH sessions do not read limits.d; None when they do, or when this is unknown."""
    words = [line.text.split() for line in facts.limits.sshd]
    uses = next((w[1].lower() for w in words if len(w) > 1 and w[0].lower() == "usepam"), None)
    if uses == "no":
        return "sshd does not use PAM (UsePAM no), so limits.d is not read"
    if uses == "yes" and not any("pam_limits" in line.text for line in facts.limits.configured):
        return "sshd's PAM files do not use pam_limits, so limits.d is not read"
    return None


def _lowered_by_shell(facts: NodeFacts) -> tuple[str, ...]:
    """Return warnings about start-up files of the login shell that set the limit again after PAM."""
    csh = facts.limits.login_shell.rsplit("/", 1)[-1] in ("csh", "tcsh")
    found = []
    for line in facts.limits.shells:
        words = line.text.split()
        of_csh = line.path.startswith("/etc/csh.")
        if (of_csh and csh and "memorylocked" in words) or (
            not of_csh and not csh and words[0] == "ulimit" and any(_sets_memlock(word) for word in words[1:])
        ):
            found.append(line)
    return tuple(f"{line.path} sets the limit again: {line.text}" for line in found)


def _sets_memlock(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and "l" in word


def judge(facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
    """Return MET when the soft limit of the probe's session is at least what the inventory requires."""
    reading = facts.limits.memlock
    if reading.value is None:
        return Verdict(NAME, Status.UNKNOWN, because("the memlock limit", reading))
    kib = UNLIMITED if reading.value.soft == UNLIMITED else reading.value.soft // 1024
    hard = UNLIMITED if reading.value.hard == UNLIMITED else reading.value.hard // 1024
    wanted = _wanted_kib(node)
    evidence: dict[str, Json] = {"soft": _words(kib), "hard": _words(hard), "wanted": _words(wanted)}
    # Containers do not inherit the session's limit; clusterctl sets it on docker's command line.
    evidence["docker_default_bytes"] = daemon_json.default_memlock(daemon_json.read(facts) or {})
    also = session_limits.warnings(facts, fleet)
    if _enough(kib, wanted):
        return Verdict(NAME, Status.MET, f"memlock is {_words(kib)}", evidence, also)
    reason = f"memlock is {_words(kib)}, not {_words(wanted)}"
    if facts.in_container:
        reason += (
            "; the container engine sets this limit: start the container with --ulimit memlock=-1 "
            "(the capability IPC_LOCK does nothing for a process that is not root)"
        )
        return Verdict(NAME, Status.UNMET, reason, evidence, also)
    if _enough(hard, wanted):
        reason += " (the hard limit would allow it)"
    without_pam = _without_pam(facts)
    if without_pam is not None:
        reason += f"; {without_pam}"
    warnings = (*_overriding(facts, node), *_lowered_by_shell(facts), *also)
    if node.connection == "local":
        warnings = (*warnings, "open sessions keep their limit: log in again after the change")
    return Verdict(NAME, Status.UNMET, reason, evidence, warnings)


def steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    """Return the steps that raise the limit for PAM sessions and for the SSH server.

    A container gets no steps: pam_limits refuses the login when it may not raise a limit.
    """
    if judge(facts, node, fleet).status is not Status.UNMET or facts.in_container:
        return ()
    wanted = _wanted_kib(node)
    pam = "unlimited" if wanted == UNLIMITED else str(wanted)
    limits = render("apply", "limits-memlock.conf", value=pam)
    found: list[Step] = []
    if _without_pam(facts) is None:
        found.append(WriteFile(f"Allow memlock {_words(wanted)} in {LIMITS}", LIMITS, limits))
    daemon = _daemon(facts)
    if daemon is not None:
        path = f"/etc/systemd/system/{daemon}.d/90-clusterctl-memlock.conf"
        value = "infinity" if wanted == UNLIMITED else f"{wanted}K"
        drop_in = render("systemd", "memlock-drop-in.conf", value=value)
        found.append(WriteFile(f"Allow memlock {_words(wanted)} for {daemon}", path, drop_in))
        if node.connection != "local" or facts.managed_file(path) is None:
            found.append(RestartUnit(f"Restart {daemon} (open sessions continue)", daemon))
    return tuple(found)
