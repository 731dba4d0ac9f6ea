"""``container-toolkit``: containers can use the GPUs, through the nvidia runtime or a matching CDI specification.

Sources: NVIDIA Container Toolkit documentation (installation, CDI support); moby #49963 (CDI on by default from 28.2),
#50228 (``--gpus`` through CDI); moby daemon/nvidia_linux.go (``--gpus`` through the hook in dockerd's PATH).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.requirements import packages
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.containers import cdi_specification, daemon_json, docker
from clusterctl.requirements.containers.cdi_specification import Gap
from clusterctl.requirements.gpu import nvidia_repository
from clusterctl.requirements.gpus import own_gpus
from clusterctl.requirements.steps import Command, RestartUnit, Step
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.services import DockerEngine
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "container-toolkit"
TITLE = "Containers can use the GPUs"
READS = frozenset({"docker", "gpu", "pci", "services", "software", "system"})
ABOUT = About(
    checks="containers get the GPUs, through a CDI specification that fits the driver or through the runtime",
    why=(
        "without the toolkit containers start without GPUs; a specification for another driver breaks "
        "them after a driver upgrade"
    ),
    bootstrap="installs the toolkit, writes the specification, edits `daemon.json`",
    undo=(
        "restores `daemon.json`, the specification and the units, and removes the packages that bootstrap"
        " added"
    ),
    settings=("requirements.container_toolkit", "requirements.packages", "container.gpus"),
)

PACKAGE = "nvidia-container-toolkit"
DOCKER = "docker.service"
RUNTIME: dict[str, Json] = {"args": [], "path": "nvidia-container-runtime"}
HOOK = "nvidia-container-runtime-hook"
FIRST_CDI = (25, 0)
CDI_BY_DEFAULT = (28, 2)


def _engine(facts: NodeFacts) -> DockerEngine | None:
    """Return docker's engine if it answers; None for podman behind docker's socket, which reads no daemon.json."""
    return None if docker.is_podman(facts) else facts.docker.engine.value


def _version(engine: DockerEngine) -> tuple[int, int]:
    match = re.match(r"(\d{1,9})\.(\d{1,9})", engine.server_version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _serves_cdi(facts: NodeFacts) -> bool:
    engine = _engine(facts)
    return engine is not None and _version(engine) >= FIRST_CDI and bool(engine.cdi_spec_dirs)


def _by_hook(facts: NodeFacts, node: Node) -> bool:
    """Whether a docker without CDI serves --gpus through the toolkit's hook, without the nvidia runtime."""
    engine = _engine(facts)
    return (
        engine is not None
        and _version(engine) < FIRST_CDI
        and "nvidia" not in engine.runtimes
        and facts.software.tool(HOOK) is not None
        and not facts.docker.hook_came_later
        and node.container.gpus != "cdi"
    )


def _is_cdi_wanted(node: Node) -> bool:
    return node.requirements.container_toolkit.cdi is not False


def _is_cdi_asked_for(facts: NodeFacts, node: Node) -> bool:
    """Whether CDI is requested explicitly: by the inventory's requirement or container, or by daemon.json."""
    features = (daemon_json.read(facts) or {}).get("features")
    return (
        node.requirements.container_toolkit.cdi is True
        or node.container.gpus == "cdi"
        or (isinstance(features, dict) and features.get("cdi") is True)
    )


def _lacks_toolkit(facts: NodeFacts) -> bool:
    return facts.docker.toolkit.value is None and facts.software.tool("nvidia-ctk") is None


def _has_no_docker_to_come(facts: NodeFacts, node: Node, of_docker: Decision) -> bool:
    """Whether docker is not installed and will not be: on Kubernetes nodes the GPU Operator owns the toolkit."""
    return (
        facts.docker.binary is None
        and facts.docker.engine.value is None
        and node.requirements.container_toolkit.require is not True
        and not of_docker.steps
    )


def _toolkit_gap(facts: NodeFacts, node: Node, of_docker: Decision) -> Gap | None:
    if not _lacks_toolkit(facts):
        return None
    if _has_no_docker_to_come(facts, node, of_docker):
        return Gap("the NVIDIA Container Toolkit is not installed, and neither is docker, which would use it")
    install = packages.install(facts, node, f"Install {PACKAGE}", PACKAGE)
    old = " (only the deprecated nvidia-docker2)" if facts.software.package("nvidia-docker2") else ""
    reason = f"the NVIDIA Container Toolkit is not installed{old}{packages.by_hand(facts, 'it')}"
    repository = nvidia_repository.toolkit_repository(facts)
    if install is None or (repository is None and install.folder is None):
        return Gap(reason)
    source = nvidia_repository.steps(facts, node, repository) if repository is not None else ()
    return Gap(reason, (*source, install))


def _needs(facts: NodeFacts, node: Node) -> tuple[bool, bool]:
    """Return whether docker needs the nvidia runtime configured, and whether it needs CDI turned on."""
    engine = _engine(facts)
    assert engine is not None
    has_runtime = "nvidia" in engine.runtimes
    wants_cdi = _is_cdi_wanted(node)
    if _version(engine) < FIRST_CDI:
        return not has_runtime and not _by_hook(facts, node), False
    if _serves_cdi(facts):
        return not has_runtime and not wants_cdi, False
    return not has_runtime, wants_cdi and (not has_runtime or node.container.gpus == "cdi")


def _docker_gap(facts: NodeFacts, node: Node, of_docker: Decision) -> Gap | None:
    engine = _engine(facts)
    if engine is None:
        return None
    runtime, cdi = _needs(facts, node)
    if not runtime and not cdi:
        return None
    said = []
    if runtime:
        later = facts.docker.hook_came_later and _version(engine) < FIRST_CDI
        started = f", and was started before {HOOK} was installed" if later else ""
        said.append(f"docker has no runtime called nvidia{started}")
    if cdi:
        since = (
            "which needs features.cdi in daemon.json before 28.2"
            if _version(engine) < CDI_BY_DEFAULT
            else "because it is turned off"
        )
        said.append(f"docker {engine.server_version} does not serve CDI, {since}")
    # CDI needs a restart of the engine, which ends containers; for a runtime a reload is enough.
    running = 0 if engine.live_restore else engine.containers_running or 0
    if cdi and running:
        said.append(f"CDI needs a restart of the engine, and {running} containers run on it: stop them first")
        cdi = False
    reason = "; ".join(said)
    wanted: dict[str, Json] = {}
    if cdi:
        wanted["features"] = {"cdi": True}
    if runtime:
        wanted["runtimes"] = {"nvidia": RUNTIME}
    if not wanted:
        return Gap(reason)
    if docker.in_snap(facts):
        return Gap(f"{reason}; docker is a snap, which does not read {daemon_json.PATH}")
    old = daemon_json.read(facts)
    if old is None:
        return Gap(f"{reason}; {daemon_json.why_not(facts)}, so the file is left alone")
    if any(daemon_json.is_written_by(step) for step in of_docker.steps):
        return Gap(f"{reason}; the requirement docker changes {daemon_json.PATH} first")
    text, path = daemon_json.merged(old, wanted), daemon_json.PATH
    write = (daemon_json.write(facts, f"Write {' and '.join(wanted)} into {path}", text),)
    return Gap(reason, _configure(facts, () if text == daemon_json.merged(old, {}) else write, restart=cdi))


def _configure(facts: NodeFacts, write: tuple[Step, ...], *, restart: bool) -> tuple[Step, ...]:
    if not facts.system.systemd_running:
        return write
    if restart:
        return (*write, RestartUnit("Restart docker with its new configuration", DOCKER))
    # try-: an undo does not start an engine that was stopped in the meantime.
    reload = ("systemctl", "try-reload-or-restart", DOCKER)
    return (
        # Undo runs in reverse order, so the reload that must follow the restored file comes before the file.
        Command("Let undo reload docker after it restores the old file", ("true",), reload),
        *write,
        Command("Reload docker's runtimes", reload, None),
    )


def _specification_gap(facts: NodeFacts, node: Node) -> Gap | None:
    engine = _engine(facts)
    somebody = _has_podman(facts) or engine is None or _version(engine) >= FIRST_CDI
    if not _is_cdi_wanted(node) or not somebody or facts.docker.cdi_unseen or _lacks_toolkit(facts):
        # A new toolkit brings a service that generates the specification; judge that after it is installed.
        return None
    return cdi_specification.gap(facts)


def _has_podman(facts: NodeFacts) -> bool:
    return facts.software.tool("podman") is not None


def _does_without(facts: NodeFacts, node: Node, found: Gap) -> bool:
    """Whether containers get the GPUs without this specification: through docker's nvidia runtime.

    A specification for another driver breaks each program that reads it: podman, and a docker that serves CDI, where
    --gpus goes through the file as well. Without the hook (nvidia-container-toolkit-base has none) such a docker has
    no fallback for --gpus.
    """
    engine = _engine(facts)
    hook = facts.software.tool(HOOK) is not None or facts.software.tool("nvidia-ctk") is None
    return (
        engine is not None
        and "nvidia" in engine.runtimes
        and not _is_cdi_asked_for(facts, node)
        and not (found.is_stale and (_serves_cdi(facts) or _has_podman(facts)))
        and (hook or not _serves_cdi(facts))
    )


def _is_engine_unseen(facts: NodeFacts) -> bool:
    """Whether docker is installed but its engine's state is unknown: it may have the nvidia runtime."""
    return (
        facts.docker.binary is not None and facts.docker.engine.value is None and not docker.is_podman(facts)
    )


def _may_do_without(facts: NodeFacts, node: Node, found: Gap) -> bool:
    unseen = _is_engine_unseen(facts) and not found.is_stale and not _is_cdi_asked_for(facts, node)
    return unseen or _does_without(facts, node, found)


def _cdi_gap(facts: NodeFacts, node: Node) -> Gap | None:
    found = _specification_gap(facts, node)
    if found is None or _may_do_without(facts, node, found):
        return None
    # moby #50228: if the hook is installed, --gpus goes through the specification as well.
    also = (
        _serves_cdi(facts)
        and facts.software.tool("nvidia-cdi-hook") is not None
        and bool(facts.docker.cdi_specs)
    )
    return Gap(
        f"{found.reason} (docker's --gpus may go through it too)" if also else found.reason, found.steps
    )


def _warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    warnings = []
    if _by_hook(facts, node):
        warnings.append(
            f"docker has no runtime called nvidia: --gpus all works through {HOOK} (if docker was started after the "
            "toolkit was installed), --runtime=nvidia does not work"
        )
    found = _specification_gap(facts, node)
    if found is not None and _does_without(facts, node, found):
        podman = ", and so does podman" if _has_podman(facts) else ""
        warnings.append(
            f"{found.reason}: docker's --gpus and --runtime=nvidia work without it, --device nvidia.com/gpu=all "
            f"needs it{podman}; set requirements.container_toolkit.cdi: true to let bootstrap fix it"
        )
    if facts.software.package("nvidia-docker2") is not None:
        warnings.append(
            "nvidia-docker2 is deprecated, and its package claims /etc/docker/daemon.json: "
            f"remove it once {PACKAGE} is installed"
        )
    left = cdi_specification.leftover(facts)
    if left is not None:
        warnings.append(left)
    return tuple(warnings)


def _not_wanted(facts: NodeFacts, node: Node) -> Decision | None:
    wanted = node.requirements.container_toolkit.require
    if wanted is False:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require it")
    if facts.in_container:
        return Decision(
            NAME, Status.NOT_APPLICABLE, "this is a container; the docker engine belongs to the host"
        )
    if wanted is None and not node.requirements.docker.require:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require docker")
    if wanted is None and facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    if wanted is None and not own_gpus(facts):
        return Decision(NAME, Status.NOT_APPLICABLE, "the node has no NVIDIA GPU")
    return None


def _follows(facts: NodeFacts, of_docker: Decision) -> str:
    """Return the requirement whose steps make steps of this one possible; empty if there is none."""
    if of_docker.steps:
        return docker.NAME
    return "gpu-driver" if facts.gpu.driver.status is ReadStatus.ABSENT else ""


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the toolkit is installed and docker has the runtime or a matching CDI specification.

    The steps install the toolkit, configure docker, and generate a CDI specification.
    """
    settled = _not_wanted(facts, node)
    if settled is not None:
        return settled
    engine = _engine(facts)
    evidence: dict[str, Json] = {
        "toolkit": facts.docker.toolkit.value,
        "docker": None if engine is None else engine.server_version,
        "runtimes": [] if engine is None else list(engine.runtimes),
        "serves_cdi": _serves_cdi(facts),
        "specifications": dict(facts.docker.cdi_drivers),
    }
    of_docker = docker.decide(facts, node, fleet)
    toolkit = _toolkit_gap(facts, node, of_docker)
    gaps = [
        gap
        for gap in (toolkit, _docker_gap(facts, node, of_docker), _cdi_gap(facts, node))
        if gap is not None
    ]
    warnings = _warnings(facts, node)
    if gaps:
        # A runtime that is missing and cannot be installed must not be configured in docker.
        possible = [] if toolkit is not None and not toolkit.steps else gaps
        reason, steps = (
            "; ".join(gap.reason for gap in gaps),
            tuple(step for gap in possible for step in gap.steps),
        )
        follows = "" if steps or toolkit is not None else _follows(facts, of_docker)
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, steps, follows=follows)
    if _is_engine_unseen(facts):
        reason = because("the docker engine's information", facts.docker.engine)
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    if facts.docker.cdi_unseen and _is_cdi_wanted(node):
        reason = f"the CDI specifications could not be read ({facts.docker.cdi_unseen})"
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    ways = []
    if engine is not None and "nvidia" in engine.runtimes:
        ways.append("docker has the nvidia runtime")
    if _by_hook(facts, node):
        ways.append(f"docker's --gpus goes through {HOOK}")
    if facts.docker.cdi_specs and (_serves_cdi(facts) or engine is None):
        ways.append("the CDI specification matches the driver")
    reason = f"nvidia-ctk {facts.docker.toolkit.value or 'is installed'}: {' and '.join(ways) or 'nothing is missing'}"
    return Decision(NAME, Status.MET, reason, evidence, warnings)
