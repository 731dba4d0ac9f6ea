"""``memlock``: a non-interactive SSH session may lock the memory that ranks register as RDMA buffers.

The limit is measured in the kind of session that mpirun gets, not read from a configuration file. Other limits of that
session (stack, open files, shared memory) are warnings.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterctl.facts.model.host import UNLIMITED
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.containers import daemon_json
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import RestartUnit, Step, WriteFile
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "memlock"
TITLE = "SSH sessions may lock enough memory"
READS = frozenset({"configuration", "docker", "limits", "pci", "rdma", "services", "storage", "system"})
ABOUT = About(
    checks=(
        "a new, non-interactive SSH session may lock unlimited memory, on nodes with RDMA devices or GPUs; "
        "a number of KiB in the inventory on every node"
    ),
    why=(
        "ranks that use RDMA lock the memory that they register; with the usual limit of 8 MiB "
        "registration fails, and NCCL falls back to TCP sockets without an error"
    ),
    bootstrap="writes a file in limits.d and a drop-in for sshd",
    undo="restores both files, and restarts sshd",
    settings=("requirements.memlock",),
)

_ROOT = "root"
"""Our file has a line for root too, because wildcards do not apply to root; of such lines the last takes effect."""

LIMITS = "/etc/security/limits.d/90-clusterctl-memlock.conf"

FILES = 131072
"""Enough for sockets, shared memory and libraries of eight ranks with hundreds of peers."""
MANY_NODES = 16
SHM_BYTES = 1 << 30
"""The size of /dev/shm that eight NCCL ranks need (NCCL user guide, troubleshooting: shared memory)."""


def _words(kib: int) -> str:
    return "unlimited" if kib == UNLIMITED else f"{kib} KiB"


def _wanted_kib(node: Node) -> int:
    wanted = node.requirements.memlock
    return UNLIMITED if wanted == "unlimited" else wanted


def _enough(kib: int, wanted_kib: int) -> bool:
    return kib == UNLIMITED or (wanted_kib != UNLIMITED and kib >= wanted_kib)


def _locks_nothing(facts: NodeFacts) -> bool:
    """Whether the node surely has neither an RDMA device nor a GPU, so that its ranks register no memory."""
    devices = facts.rdma.devices
    return not devices.is_unknown and not devices.value and not facts.pci.nvidia_gpus


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


def _uses_pam(facts: NodeFacts) -> str | None:
    words = [line.text.split() for line in facts.limits.sshd]
    return next((w[1].lower() for w in words if len(w) > 1 and w[0].lower() == "usepam"), None)


def _by_pam(facts: NodeFacts) -> bool:
    """Whether sshd's configuration file says that new sessions read limits.d."""
    return _uses_pam(facts) == "yes" and _without_pam(facts) is None


def _without_pam(facts: NodeFacts) -> str | None:
    """Return why SSH sessions do not read limits.d; None when they do, or when this is unknown."""
    uses = _uses_pam(facts)
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


def _other_limits(facts: NodeFacts, fleet: Fleet) -> tuple[str, ...]:
    """Return warnings about the stack, open files at scale, shared memory, and its removal at logout."""
    found = []
    limits = facts.limits
    if limits.stack.value is not None and limits.stack.value.soft == UNLIMITED:
        found.append(
            "the stack limit is unlimited, so glibc gives each thread only 2 MiB (pthread_create): set it to 8192 KiB"
        )
    files = limits.nofile.value
    few = files is not None and files.soft != UNLIMITED and files.soft < FILES
    if files is not None and few and len(fleet.nodes) >= MANY_NODES:
        found.append(f"a process may open {files.soft} files; {len(fleet.nodes)} nodes need {FILES}")
    shm = facts.storage.at("/dev/shm")
    if shm is not None and shm.size_bytes < SHM_BYTES:
        said = f"/dev/shm has {shm.size_bytes >> 20} MiB; eight ranks need 1 GiB"
        found.append(said + (": start the container with --ipc host" if facts.in_container else ""))
    settings = [
        (line.path, value.strip().lower())
        for line in facts.host_config
        for name, _, value in [line.text.partition("=")]
        if line.path.startswith("/etc/systemd/logind") and name.strip() == "RemoveIPC"
    ]
    # Drop-ins are read after the main file, and the last setting takes effect.
    if settings and settings[-1][1] in ("yes", "y", "true", "t", "on", "1"):
        found.append(
            f"{settings[-1][0]} sets RemoveIPC=yes: shared memory is removed when the user's last session ends"
        )
    return tuple(found)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the soft limit of the probe's session is at least what the inventory requires."""
    reading = facts.limits.memlock
    if reading.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the memlock limit", reading))
    kib = UNLIMITED if reading.value.soft == UNLIMITED else reading.value.soft // 1024
    hard = UNLIMITED if reading.value.hard == UNLIMITED else reading.value.hard // 1024
    wanted = _wanted_kib(node)
    evidence: dict[str, Json] = {"soft": _words(kib), "hard": _words(hard), "wanted": _words(wanted)}
    # Containers do not inherit the session's limit; clusterctl sets it on docker's command line.
    evidence["docker_default_bytes"] = daemon_json.default_memlock(daemon_json.read(facts) or {})
    also = _other_limits(facts, fleet)
    if wanted == UNLIMITED and kib != UNLIMITED and _locks_nothing(facts):
        reason = f"the node has no RDMA device and no GPU: ranks lock no memory (the limit is {_words(kib)})"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence, also)
    if _enough(kib, wanted):
        return Decision(NAME, Status.MET, f"memlock is {_words(kib)}", evidence, also)
    reason = f"memlock is {_words(kib)}, not {_words(wanted)}"
    if facts.in_container:
        reason += (
            "; the container engine sets this limit: start the container with --ulimit memlock=-1 "
            "(the capability IPC_LOCK does nothing for a process that is not root)"
        )
        # Without steps: in a container, pam_limits would refuse the login because it may not raise the limit.
        return Decision(NAME, Status.UNMET, reason, evidence, also)
    if _enough(hard, wanted):
        reason += " (the hard limit would allow it)"
    without_pam = _without_pam(facts)
    if without_pam is not None:
        reason += f"; {without_pam}"
    warnings = (*_overriding(facts, node), *_lowered_by_shell(facts), *also)
    if node.connection == "local":
        warnings = (*warnings, "open sessions keep their limit: log in again after the change")
    steps = _steps(facts, node)
    if node.connection != "local" and _has_no_effect(facts, steps):
        reason += (
            f"; {LIMITS} is in place and has no effect on this session: sshd may run with another configuration "
            "(`ps -C sshd -o args` shows its option -f)"
        )
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    return Decision(NAME, Status.UNMET, reason, evidence, warnings, steps)


def _has_no_effect(facts: NodeFacts, steps: tuple[Step, ...]) -> bool:
    """Whether the files of the steps are in place already, and PAM should have applied them to this new session."""
    if not _by_pam(facts):
        return False
    for step in steps:
        if not isinstance(step, WriteFile):
            continue
        if step.path == LIMITS:
            present = [line.text for line in facts.limits.configured if line.path == LIMITS]
            if present != [line.strip() for line in step.content.splitlines() if line.strip()]:
                return False
        elif (facts.managed_file(step.path) or "").strip() != step.content.strip():
            return False
    return True


def _steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that raise the limit for PAM sessions and for the SSH server."""
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
