"""``docker``: the engine is installed, runs, and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clusterctl.requirements.base import EnableUnit, InstallPackages, Json, Status, Step, Verdict
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

NAME = "docker"
TITLE = "The docker engine answers"

UNIT = "docker.service"


def judge(facts: NodeFacts, node: Node) -> Verdict:
    """Met when the engine tells its version; not wanted, or in a container, it is not applicable."""
    if not node.requirements.docker.require:
        return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory does not require docker")
    if facts.in_container:
        return Verdict(NAME, Status.NOT_APPLICABLE, "this is a container: its engine is the host's")
    docker = facts.docker
    evidence: dict[str, Json] = {"binary": docker.binary, "user_access": docker.user_access}
    if docker.engine.value is not None:
        engine = docker.engine.value
        evidence |= {"version": engine.server_version, "runtimes": list(engine.runtimes)}
        return Verdict(NAME, Status.MET, f"docker {engine.server_version} answers", evidence)
    if docker.binary is None:
        return Verdict(NAME, Status.UNMET, "docker is not installed", evidence)
    unit = facts.services.unit(UNIT)
    if unit is not None and unit.active != "active":
        return Verdict(NAME, Status.UNMET, f"docker is installed, but {UNIT} is {unit.active}", evidence)
    if docker.engine.status.value in ("denied", "unparsable", "empty"):
        return Verdict(NAME, Status.UNKNOWN, because("the docker engine's account", docker.engine), evidence)
    detail = f": {docker.engine.detail}" if docker.engine.detail else ""
    return Verdict(
        NAME, Status.UNMET, f"docker is installed, but its engine does not answer{detail}", evidence
    )


def _package(facts: NodeFacts, node: Node) -> tuple[Literal["apt", "dnf"], str] | None:
    chosen = node.requirements.docker.package
    system = facts.system.os.value
    if facts.software.manager == "apt":
        return "apt", chosen or "docker.io"
    if facts.software.manager == "dnf":
        own = {"fedora": "moby-engine", "amzn": "docker"}
        return "dnf", chosen or own.get(system.id if system is not None else "", "docker-ce")
    return None


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Install the engine where it is missing; enable and start it."""
    if judge(facts, node).status is not Status.UNMET:
        return ()
    found: list[Step] = []
    if facts.docker.binary is None:
        package = _package(facts, node)
        if package is None:
            return ()
        found.append(InstallPackages(f"Install {package[1]}", package[0], (package[1],)))
    if facts.system.systemd_running:
        found.append(EnableUnit(f"Enable and start {UNIT}", UNIT))
    return tuple(found)
