"""``docker``: the docker engine is installed, runs, and answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.containers import daemon_json, docker_install
from clusterctl.requirements.steps import EnableUnit, RestartUnit, Step
from clusterctl.requirements.wording import NO_SYSTEMD, because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "docker"
TITLE = "The docker engine answers"
READS = frozenset({"docker", "services", "software", "system"})
ABOUT = About(
    checks="the engine answers",
    why="`up`, `image` and container runs of `bench` need a docker engine on every node",
    bootstrap="installs docker (distribution, repository, mirror, or carried packages)",
    undo=(
        "removes the packages, the repository and the key that bootstrap added, and restores the unit and"
        " `daemon.json`"
    ),
    settings=("requirements.docker", "requirements.packages"),
)

UNIT = "docker.service"
SOCKET = "docker.socket"


def is_podman(facts: NodeFacts) -> bool:
    """Whether ``docker`` is really podman: a script of that name, or podman's socket instead of docker's."""
    engine = facts.docker.engine.value
    # Docker's versions went from 1.13 to 17.03; podman's lie in between.
    by_version = engine is not None and re.match(r"[2-9]\.", engine.server_version) is not None
    return by_version or facts.software.package("podman-docker") is not None


def in_snap(facts: NodeFacts) -> bool:
    """Whether docker is installed as a snap, whose configuration and unit have other names."""
    return (facts.docker.binary or "").startswith("/snap/")


def _warnings(facts: NodeFacts) -> tuple[str, ...]:
    found = []
    if in_snap(facts):
        found.append(
            "docker is a snap: it cannot read files outside home directories, and NVIDIA's toolkit does not support it"
        )
    if facts.docker.rootless:
        found.append(
            f"a rootless engine runs as well ({facts.docker.rootless[0]}): it can neither raise memlock nor use the "
            "host's network, which RDMA needs; clusterctl uses the system's engine"
        )
    if facts.docker.engine.value is not None and not in_snap(facts) and not _starts_at_boot(facts):
        found.append(
            f"{UNIT} runs, but neither it nor {SOCKET} is enabled: it is off after a reboot (systemctl enable docker)"
        )
    return tuple(found)


def _starts_at_boot(facts: NodeFacts) -> bool:
    """Whether systemd starts the engine at boot or for its first client; true if the unit is unknown."""
    unit, socket = facts.services.unit(UNIT), facts.services.unit(SOCKET)
    return unit is None or unit.enabled != "disabled" or (socket is not None and socket.enabled == "enabled")


def _gap(facts: NodeFacts, node: Node) -> str | None:
    """Return what is missing on a running engine: the memlock limit that the inventory sets for containers."""
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
    """Whether the docker program is installed without an engine: only the client, or an engine without unit."""
    return (
        facts.docker.binary is not None
        and not in_snap(facts)
        and facts.services.units.value is not None
        and facts.services.unit(UNIT) is None
    )


def _running(facts: NodeFacts) -> int:
    """Return the number of containers that a restart of the engine would end."""
    engine = facts.docker.engine.value
    return 0 if engine is None or engine.live_restore else engine.containers_running or 0


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the engine reports its version; not applicable if not required, or inside a container."""
    if not node.requirements.docker.require:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require docker")
    if facts.in_container:
        return Decision(
            NAME, Status.NOT_APPLICABLE, "this is a container; the docker engine belongs to the host"
        )
    docker = facts.docker
    evidence: dict[str, Json] = {"binary": docker.binary, "user_access": docker.user_access}
    warnings = _warnings(facts)
    if is_podman(facts):
        reason = (
            "docker is podman (package podman-docker, or podman's socket), not the docker engine: "
            "remove it, or set requirements.docker.require to false"
        )
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    if docker.engine.value is not None:
        engine = docker.engine.value
        evidence |= {"version": engine.server_version, "runtimes": list(engine.runtimes)}
        gap = _gap(facts, node)
        if gap is not None and facts.docker.daemon_config.is_unknown:
            return Decision(NAME, Status.UNKNOWN, gap, evidence, warnings)
        if gap is not None:
            running = _running(facts)
            if running:
                gap += f"; the engine must be restarted, and {running} containers run on it: stop them first"
            return Decision(NAME, Status.UNMET, gap, evidence, warnings, _defaults(facts))
        return Decision(NAME, Status.MET, f"docker {engine.server_version} answers", evidence, warnings)
    if docker.binary is None:
        reason = "docker is not installed" + docker_install.hint(facts, node)
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, _installed(facts, node))
    unit = facts.services.unit(UNIT)
    if unit is not None and unit.load == "masked":
        reason = (
            f"docker is installed, but {UNIT} is masked: run systemctl unmask {UNIT} if docker may run here"
        )
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    if unit is not None and unit.active != "active":
        reason = f"docker is installed, but {UNIT} is {unit.active}"
        return Decision(
            NAME, Status.UNMET, reason, evidence, warnings, _started(facts), _why_not_started(facts)
        )
    if _has_no_unit(facts) and not docker.socket:
        reason = f"the docker program is installed, but no engine: systemd has no {UNIT}"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    if docker.engine.status.value in ("denied", "unparsable", "empty"):
        reason = because("the docker engine's information", docker.engine)
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    detail = f": {docker.engine.detail}" if docker.engine.detail else ""
    reason = f"docker is installed, but its engine does not answer{detail}"
    return Decision(NAME, Status.UNMET, reason, evidence, warnings, _started(facts), _why_not_started(facts))


def _installed(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that install the engine and start it; empty if it cannot be installed, or must not run."""
    unit = facts.services.unit(UNIT)
    packages = () if unit is not None and unit.load == "masked" else docker_install.steps(facts, node)
    return (*packages, *_started(facts)) if packages else ()


def _started(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the step that enables and starts the engine; empty if systemd does not run it."""
    if in_snap(facts) or _has_no_unit(facts) or not facts.system.systemd_running:
        return ()
    return (EnableUnit(f"Enable and start {UNIT}", UNIT),)


def _why_not_started(facts: NodeFacts) -> str:
    """Return why no step starts the engine; empty if one does."""
    if in_snap(facts):
        return "docker is a snap: snap start docker"
    if not facts.system.systemd_running:
        return NO_SYSTEMD
    return f"systemd has no {UNIT}" if _has_no_unit(facts) else ""


def _defaults(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the steps that set the default limits of containers; empty if the file cannot be merged, or in use."""
    found = daemon_json.read(facts)
    if found is None or in_snap(facts) or _running(facts):
        return ()
    limit = {"Name": "memlock", "Hard": -1, "Soft": -1}
    text = daemon_json.merged(found, {"default-ulimits": {"memlock": limit}})
    return (
        daemon_json.write(facts, f"Set unlimited memlock for containers in {daemon_json.PATH}", text),
        RestartUnit(f"Restart {UNIT} (no containers run on it)", UNIT),
    )
