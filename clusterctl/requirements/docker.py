"""``docker``: the engine is installed, runs, and answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.requirements import daemon_json, docker_install
from clusterctl.requirements.base import EnableUnit, Json, RestartUnit, Status, Step, Verdict
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet

NAME = "docker"
TITLE = "The docker engine answers"
READS = frozenset({"docker", "services", "software", "system"})

UNIT = "docker.service"
SOCKET = "docker.socket"


def is_podman(facts: NodeFacts) -> bool:
    """Whether ``docker`` is podman's stand-in: a script of that name, or podman's socket in the place of docker's."""
    engine = facts.docker.engine.value
    # Docker went from 1.13 to 17.03; podman's versions are the ones between.
    by_version = engine is not None and re.match(r"[2-9]\.", engine.server_version) is not None
    return by_version or facts.software.package("podman-docker") is not None


def in_snap(facts: NodeFacts) -> bool:
    """Whether docker is the snap, whose engine has its configuration and its unit elsewhere."""
    return (facts.docker.binary or "").startswith("/snap/")


def _warnings(facts: NodeFacts) -> tuple[str, ...]:
    found = []
    if in_snap(facts):
        found.append(
            "docker is a snap: it sees no files outside home folders, and NVIDIA's toolkit does not support it"
        )
    if facts.docker.rootless:
        found.append(
            f"an engine without root runs as well ({facts.docker.rootless[0]}): it can neither raise memlock "
            "nor use the host's network as RDMA needs; clusterctl uses the system's"
        )
    if facts.docker.engine.value is not None and not in_snap(facts) and not _starts_at_boot(facts):
        found.append(
            f"{UNIT} runs and is not enabled, nor is {SOCKET}: the next boot leaves it off (systemctl enable docker)"
        )
    return tuple(found)


def _starts_at_boot(facts: NodeFacts) -> bool:
    """Whether systemd starts the engine at boot or for its first client, as far as is known: its packages differ."""
    unit, socket = facts.services.unit(UNIT), facts.services.unit(SOCKET)
    return unit is None or unit.enabled != "disabled" or (socket is not None and socket.enabled == "enabled")


def _gap(facts: NodeFacts, node: Node) -> str | None:
    """What an engine that answers still lacks: the memlock limit that the inventory wants for containers."""
    if node.requirements.docker.memlock == "leave":
        return None
    if in_snap(facts):
        return f"docker is a snap, which does not read {daemon_json.PATH}, so default-ulimits cannot be added"
    found = daemon_json.read(facts)
    if found is None:
        return f"{daemon_json.why_not(facts)}, so default-ulimits cannot be added"
    soft = daemon_json.default_memlock(found)
    if soft == -1:
        return None
    return "containers get " + (
        "the engine's own memlock limit" if soft is None else f"a memlock limit of {soft} bytes"
    )


def _has_no_unit(facts: NodeFacts) -> bool:
    """Whether the program is there and no engine: the client alone, or an engine that something else starts."""
    return (
        facts.docker.binary is not None
        and not in_snap(facts)
        and facts.services.units.value is not None
        and facts.services.unit(UNIT) is None
    )


def _running(facts: NodeFacts) -> int:
    """Containers that a restart of the engine would end."""
    engine = facts.docker.engine.value
    return 0 if engine is None or engine.live_restore else engine.containers_running or 0


def judge(facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
    """Met when the engine tells its version; not wanted, or in a container, it is not applicable."""
    if not node.requirements.docker.require:
        return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory does not require docker")
    if facts.in_container:
        return Verdict(NAME, Status.NOT_APPLICABLE, "this is a container: its engine is the host's")
    docker = facts.docker
    evidence: dict[str, Json] = {"binary": docker.binary, "user_access": docker.user_access}
    warnings = _warnings(facts)
    if is_podman(facts):
        reason = (
            "docker is podman's stand-in (package podman-docker, or its socket), not docker's engine: "
            "remove it, or set requirements.docker.require to false"
        )
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    if docker.engine.value is not None:
        engine = docker.engine.value
        evidence |= {"version": engine.server_version, "runtimes": list(engine.runtimes)}
        gap = _gap(facts, node)
        if gap is not None and facts.docker.daemon_config.is_unknown:
            return Verdict(NAME, Status.UNKNOWN, gap, evidence, warnings)
        if gap is not None:
            running = _running(facts)
            if running:
                gap += f"; the engine must be restarted, and {running} containers run on it: stop them first"
            return Verdict(NAME, Status.UNMET, gap, evidence, warnings)
        return Verdict(NAME, Status.MET, f"docker {engine.server_version} answers", evidence, warnings)
    if docker.binary is None:
        reason = "docker is not installed" + docker_install.hint(facts, node)
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    unit = facts.services.unit(UNIT)
    if unit is not None and unit.load == "masked":
        reason = f"docker is installed, but {UNIT} is masked: systemctl unmask it if it may run here"
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    if unit is not None and unit.active != "active":
        reason = f"docker is installed, but {UNIT} is {unit.active}"
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    if _has_no_unit(facts) and not docker.socket:
        reason = f"the program docker is there, but no engine: systemd knows no {UNIT}"
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    if docker.engine.status.value in ("denied", "unparsable", "empty"):
        reason = because("the docker engine's account", docker.engine)
        return Verdict(NAME, Status.UNKNOWN, reason, evidence, warnings)
    detail = f": {docker.engine.detail}" if docker.engine.detail else ""
    reason = f"docker is installed, but its engine does not answer{detail}"
    return Verdict(NAME, Status.UNMET, reason, evidence, warnings)


def steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    """Install the engine where it is missing, enable and start it; then what containers get by default."""
    unit = facts.services.unit(UNIT)
    if judge(facts, node, fleet).status is not Status.UNMET or is_podman(facts):
        return ()
    if in_snap(facts):
        return ()
    if facts.docker.engine.value is not None:
        return _defaults(facts)
    if _has_no_unit(facts) or (unit is not None and unit.load == "masked"):
        return ()
    found: list[Step] = []
    if facts.docker.binary is None:
        found += docker_install.steps(facts, node)
        if not found:
            return ()
    if facts.system.systemd_running:
        found.append(EnableUnit(f"Enable and start {UNIT}", UNIT))
    return tuple(found)


def _defaults(facts: NodeFacts) -> tuple[Step, ...]:
    found = daemon_json.read(facts)
    if found is None or _running(facts):
        return ()
    limit = {"Name": "memlock", "Hard": -1, "Soft": -1}
    text = daemon_json.merged(found, {"default-ulimits": {"memlock": limit}})
    return (
        daemon_json.write(facts, f"Let containers lock memory by default in {daemon_json.PATH}", text),
        RestartUnit(f"Restart {UNIT}, on which no container runs", UNIT),
    )
