"""Every requirement against recorded cases: ``<requirement>/<case>.yaml``, one trap or situation per file.

A case says what a node looks like in few words (``facts``; anything left out is a plain bare-metal Debian node),
what the inventory says of it (``node``), and what must come out (``expect``: status, parts of the reason, parts of
the warnings, and the steps, each as its kind and what it changes; INSTALL is the command that installs a built
module).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.document import from_document, to_document
from clusterctl.facts.model import (
    Acs,
    Bridge,
    Clock,
    ConfigLine,
    Cpu,
    CpuTopology,
    Docker,
    DockerEngine,
    Governor,
    GpuDirect,
    GpuDriver,
    GpuFacts,
    KernelModule,
    KernelModules,
    Limit,
    Limits,
    Link,
    ManagedFile,
    Memory,
    Network,
    NodeFacts,
    OsRelease,
    Pci,
    PciDevice,
    Rdma,
    RdmaDevice,
    RdmaPort,
    RootAccess,
    SectionNote,
    Services,
    Software,
    Storage,
    System,
    Tool,
    Unit,
    Virtualization,
)
from clusterctl.inventory.model import Node
from clusterctl.plan.build import build, target
from clusterctl.plan.model import Plan
from clusterctl.plan.model import from_document as plan_from_document
from clusterctl.plan.model import to_document as plan_to_document
from clusterctl.requirements.base import Status
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.judge import judge_node

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))

OS = {
    "debian": OsRelease("debian", (), "12", "Debian GNU/Linux 12"),
    "ubuntu": OsRelease("ubuntu", ("debian",), "22.04", "Ubuntu 22.04"),
    "rocky": OsRelease("rocky", ("rhel", "centos", "fedora"), "9.4", "Rocky Linux 9.4"),
    "fedora": OsRelease("fedora", (), "40", "Fedora Linux 40"),
    "sles": OsRelease("sles", ("suse",), "15.6", "SUSE Linux Enterprise Server 15"),
}

DEFAULTS = {
    "os": "debian",
    "kernel": "6.1.0-30-amd64",
    "cmdline": "BOOT_IMAGE=/boot/vmlinuz ro quiet",
    "vm": "none",
    "container": "none",
    "systemd": True,
    "secure_boot": False,
    "root": "root",
    "manager": "apt",
    "tools": "setpci lspci modprobe depmod gcc make",
    "headers": "/lib/modules/6.1.0-30-amd64/build",
    "pci": [],
    "driver": "absent",
    "modules": "",
    "installed": "",
    "at_boot": [],
    "nv_peer_mem": "absent",
    "nvidia_peermem": "absent",
    "peer_memory_api": False,
    "ofed": "absent",
    "dmabuf_verbs": True,
    "rdma": [],
    "libibverbs": "/lib/x86_64-linux-gnu/libibverbs.so.1",
    "providers": "mlx5 rxe",
    "uverbs": "uverbs0",
    "ibv_devices": "same",
    "memlock": "unlimited",
    "limits": [],
    "governors": "absent",
    "units": ["docker.service active", "ssh.service active"],
    "managed": {},
    "managed_section": "ok",
    "docker": {"binary": "/usr/bin/docker", "engine": "27.1"},
}


def _reading(value, status=ReadStatus.OK):
    """A value, or one of the words that stand for the lack of one."""
    if isinstance(value, str) and value in {s.value for s in ReadStatus if s is not ReadStatus.OK}:
        return Reading(None, ReadStatus(value), f"recorded as {value}")
    return Reading(value, status)


def _device(text):
    """``PARENT/.../ADDRESS CLASS VENDOR:DEVICE [driver=..] [port=..] [acs=WORD|absent|denied|failed]``."""
    place, class_code, product, *rest = text.split()
    options = dict(word.split("=", 1) for word in rest)
    path = tuple(place.split("/"))
    bridge = None
    if class_code.startswith("0604"):
        word = options.get("acs", "absent")
        acs = _reading(word) if not word[0].isdigit() else Reading(Acs(0x148, 0x5F, int(word, 16)))
        bridge = Bridge(options.get("port", "root-port"), acs)
    vendor, device = product.split(":")
    return PciDevice(
        path[-1], class_code, vendor, device, options.get("driver"), 0, None, path,
        Link(32.0, 16, 32.0, 16), bridge,
    )  # fmt: skip


def _unit(text):
    """``NAME ACTIVE [ENABLED]``."""
    name, active, *enabled = text.split()
    return Unit(name, "loaded", active, *(enabled or ["enabled"]))


def _rdma(text):
    """``NAME [pci=ADDRESS] PORT...`` where a port is ``1:ACTIVE:LinkUp:400:InfiniBand``."""
    name, *words = text.split()
    pci, ports = None, []
    for word in words:
        if word.startswith("pci="):
            pci = word[4:]
            continue
        number, state, phys, rate, layer = word.split(":")
        ports.append(
            RdmaPort(int(number), state, phys, float(rate), f"{rate} Gb/sec (4X)", layer, 1, 1, (), ())
        )
    return RdmaDevice(name, "0000:0000:0000:0001", "28.39", None, "CA", pci, 0, (), tuple(ports))


def _memlock(text):
    if text == "unlimited":
        return Reading(Limit(-1, -1))
    if not str(text)[0].isdigit():
        return _reading(text)
    soft, _, hard = str(text).partition("/")
    return Reading(Limit(int(soft) * 1024, -1 if hard == "unlimited" else int(hard or soft) * 1024))


def _governors(value):
    if isinstance(value, str):
        return _reading(value)
    return Reading(
        tuple(
            Governor(g["name"], tuple(g.get("available", "performance powersave").split()), tuple(g["cpus"]))
            for g in value
        )
    )


def facts_of(case):
    """Build a node's facts from a case's few words."""
    unknown = set(case) - set(DEFAULTS)
    assert not unknown, f"the case names unknown facts: {unknown}"
    f = {**DEFAULTS, **case}
    none = Reading(None, ReadStatus.ABSENT, "not part of the case")
    system = System(
        Reading("n1"), _reading(OS[f["os"]]), _reading(f["kernel"]), Reading("x86_64"),
        Reading(tuple(f["cmdline"].split())), Reading("b"), Reading(9.0),
        Reading(Virtualization(f["vm"], f["container"], "systemd-detect-virt")) if f["vm"] != "unknown" else none,
        Reading("systemd"), f["systemd"], _reading(f["secure_boot"]),
    )  # fmt: skip
    driver = f["driver"]
    if isinstance(driver, str) and " " in driver:
        version, flavour = driver.split()
        gpu_driver, licence = (
            Reading(GpuDriver(version, flavour)),
            _reading("Dual MIT/GPL" if flavour == "open" else "NVIDIA"),
        )
    else:
        gpu_driver, licence = _reading(driver), none
    devices = f["pci"] if isinstance(f["pci"], str) else tuple(_device(d) for d in f["pci"])
    rdma = f["rdma"] if isinstance(f["rdma"], str) else tuple(_rdma(d) for d in f["rdma"])
    listed = f["ibv_devices"]
    if listed == "same":
        listed_reading = Reading(() if isinstance(rdma, str) else tuple(d.name for d in rdma))
    else:
        listed_reading = (
            _reading(listed) if listed in ("absent", "failed", "empty") else Reading(tuple(listed.split()))
        )
    docker = f["docker"]
    engine = docker.get("engine", "absent")
    engine_reading = (
        Reading(DockerEngine(str(engine), ("runc",), "runc", (), "systemd", "overlay2", "/var/lib/docker"))
        if engine[0].isdigit()
        else _reading(engine)
    )
    return NodeFacts(
        name="n1", gathered_at=0.0, duration_s=0.1, root=RootAccess(0, f["root"]), system=system,
        cpu=Cpu(Reading(CpuTopology("cpu", (0, 1), 2, 1, False)), none, _governors(f["governors"]), Reading(0)),
        memory=Memory(Reading(1), Reading(1), (), none),
        limits=Limits(
            _memlock(f["memlock"]), none, none, none,
            tuple(ConfigLine(*line.split(": ", 1)) for line in f["limits"]), (),
        ),
        modules=KernelModules(
            Reading(tuple(KernelModule(name, "") for name in f["modules"].split())),
            Reading(tuple(f["installed"].split())),
            tuple(ConfigLine("/etc/modules-load.d/x.conf", name) for name in f["at_boot"]), (),
            _reading(f["headers"]),
        ),
        gpudirect=GpuDirect(
            _reading(f["nv_peer_mem"]), _reading(f["nvidia_peermem"]), _reading(f["peer_memory_api"]),
            _reading(f["ofed"]), _reading(f["dmabuf_verbs"]),
        ),
        pci=Pci(_reading(devices)),
        gpu=GpuFacts(none, none, none, gpu_driver, licence),
        rdma=Rdma(
            _reading(rdma), f["libibverbs"], tuple(f["providers"].split()), tuple(f["uverbs"].split()),
            listed_reading,
        ),
        network=Network(none, True, none),
        docker=Docker(docker.get("binary"), True, True, engine_reading, none, (), ()),
        storage=Storage(none, none), clock=Clock(0.0, 0.0, "chrony", Reading(True)),
        services=Services(
            Reading(tuple(_unit(u) for u in f["units"]))
        ),
        software=Software(
            f["manager"], tuple(Tool(t, f"/usr/bin/{t}") for t in f["tools"].split()), Reading(())
        ),
        sysctls=(),
        managed_files=tuple(ManagedFile(path, text) for path, text in f["managed"].items()),
        sections=tuple(
            SectionNote("managed", ReadStatus(word), 0, "", False) for word in f["managed_section"].split()
        ),
    )  # fmt: skip


def _spoken(step):
    """A step in a case's words: its kind, what it changes, and the value where there is one."""
    if step.kind == "command" and step.argv[0] == "sh":
        return "INSTALL" if "install -D" in step.argv[2] else step.argv[2]
    words = [step.kind, *target(step)[1:]]
    if step.kind in ("set-register", "write-value"):
        words += [f"{step.prior}->{step.value}"]
    return " ".join(words)


@pytest.mark.parametrize("path", CASES, ids=[f"{p.parent.name}/{p.stem}" for p in CASES])
def test_case(path):
    case = yaml.safe_load(path.read_text())
    assert set(case) <= {"about", "facts", "node", "expect"}
    assert case["about"]
    facts = facts_of(case.get("facts", {}))
    node = Node.model_validate({"name": "n1", "address": "n1", **case.get("node", {})})
    requirement = ALL[path.parent.name]
    verdict = requirement.judge(facts, node)
    expect = case["expect"]
    assert verdict.requirement == path.parent.name
    assert verdict.status.value == expect["status"], verdict
    for part in expect.get("reason", []):
        assert part in verdict.reason
    assert len(expect.get("warnings", [])) == len(verdict.warnings), verdict.warnings
    for part, warning in zip(expect.get("warnings", []), verdict.warnings, strict=True):
        assert part in warning
    steps = requirement.steps(facts, node)
    assert [_spoken(step) for step in steps] == expect.get("steps", [])
    for name, part in expect.get("content", {}).items():
        assert part in next(step.content for step in steps if getattr(step, "path", None) == name)
    # What is not unmet is not touched, and all of it survives the run folder's files.
    if verdict.status is not Status.UNMET:
        assert steps == ()
    assert from_document(to_document(facts)) == facts
    plan = Plan((build(facts, node, (verdict,), ALL),))
    assert plan_from_document(plan_to_document(plan)) == plan


def test_there_are_cases_for_every_requirement():
    names = {path.parent.name for path in CASES}
    assert names == set(ALL)
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", ALL)
def test_a_node_of_which_nothing_is_known_is_judged_without_an_error(name):
    empty = {
        "pci": "denied", "driver": "failed", "rdma": "failed", "headers": "absent", "kernel": "unparsable",
        "memlock": "unparsable", "governors": "failed", "docker": {"binary": "/usr/bin/docker", "engine": "denied"},
        "units": [], "manager": None, "tools": "", "vm": "unknown", "peer_memory_api": "failed",
        "dmabuf_verbs": "absent", "libibverbs": None, "providers": "", "uverbs": "", "ibv_devices": "absent",
    }  # fmt: skip
    facts = facts_of(empty)
    (verdict,) = judge_node(facts, Node(name="n1", address="n1"), only=[name])
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason
    assert ALL[name].steps(facts, Node(name="n1", address="n1")) == ()


def test_requirements_left_out_are_not_judged():
    facts = facts_of({})
    node = Node.model_validate({"name": "n1", "address": "n1", "requirements": {"skip": ["docker"]}})
    judged = [v.requirement for v in judge_node(facts, node, skip=["acs"])]
    assert judged == [name for name in ALL if name not in ("acs", "docker")]
    assert [v.requirement for v in judge_node(facts, node, only=["memlock", "docker"])] == ["memlock"]
