"""Every requirement against recorded cases: ``<requirement>/<case>.yaml``, one trap or situation per file.

A case says what a node looks like in few words (``facts``; anything left out is a plain bare-metal Debian node),
what the inventory says of it (``node``), and what must come out (``expect``: status, parts of the reason, parts of
the warnings, and the steps, each as its kind and what it changes; INSTALL is the command that installs a built
module, and a script of several lines is shown by its name and arguments). ``peers`` says how other nodes of the
fleet differ from this one; ``everyone`` says what the inventory says of all nodes, and ``nodes`` what it says of single
other ones. A node of ``nodes`` that is no peer is out of sight.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from clusterctl.errors import UsageError
from clusterctl.facts import nfs, ssh_mesh
from clusterctl.facts.base import Reading, ReadStatus, Section, Sections
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
    FileSum,
    Frequency,
    Gid,
    Governor,
    Gpu,
    GpuDirect,
    GpuDriver,
    GpuFacts,
    GpuTopology,
    Interface,
    KernelModule,
    KernelModules,
    Limit,
    Limits,
    Link,
    ManagedFile,
    Memory,
    Mount,
    Network,
    NodeFacts,
    NumaNode,
    OsRelease,
    OwnText,
    Package,
    Pci,
    PciDevice,
    Rdma,
    RdmaDevice,
    RdmaPort,
    RootAccess,
    SectionNote,
    Services,
    Software,
    Space,
    Storage,
    Sysctl,
    System,
    Tool,
    Unit,
    Virtualization,
)
from clusterctl.facts.subjects import complete
from clusterctl.inventory.model import Node
from clusterctl.plan.build import build, target
from clusterctl.plan.model import Plan
from clusterctl.plan.model import from_document as plan_from_document
from clusterctl.plan.model import to_document as plan_to_document
from clusterctl.requirements.base import Status
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet import Fleet
from clusterctl.requirements.judge import judge_node, refuse_nothing_to_judge

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))

OS = {
    "debian": OsRelease("debian", (), "12", "Debian GNU/Linux 12", "bookworm"),
    "ubuntu": OsRelease("ubuntu", ("debian",), "22.04", "Ubuntu 22.04", "jammy"),
    "rocky": OsRelease("rocky", ("rhel", "centos", "fedora"), "9.4", "Rocky Linux 9.4"),
    "fedora": OsRelease("fedora", (), "40", "Fedora Linux 40"),
    "trixie": OsRelease("debian", (), "13", "Debian GNU/Linux 13", "trixie"),
    "amzn": OsRelease("amzn", ("fedora",), "2023", "Amazon Linux 2023"),
    "sles": OsRelease("sles", ("suse",), "15.6", "SUSE Linux Enterprise Server 15"),
}

DEFAULTS = {
    "os": "debian",
    "kernel": "6.1.0-30-amd64",
    "machine": "x86_64",
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
    "gpus": "absent",
    "module_version": "absent",
    "topology": "",
    "fabric_manager": "absent",
    "fabric_devices": "",
    "packages": "",
    "sysctls": {},
    "sysctl_section": "ok",
    "host_config": [],
    "numa": 1,
    "numa_balancing": 0,
    "clock": {},
    "rdma_files": "absent",
    "interfaces": "absent",
    "default_route": "absent",
    "nofile": 1048576,
    "stack": 8388608,
    "shm_bytes": "absent",
    "shell": "/bin/bash",
    "shell_lines": [],
    "sshd": [],
    "frequency": None,
    "boot_id": "b",
    "repositories": [],
    "ssh_mesh": "login root 0 /root\ntool ssh\ntool ssh-keygen\n",
    "ssh_own": {},
    "nfs": "absent",
    "mounts": "absent",
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
        path[-1], class_code, vendor, device, options.get("driver"), 0,
        int(options["iommu"]) if "iommu" in options else None, path,
        _link(options.get("link", "32/16/32/16")), bridge, options.get("physfn"),
    )  # fmt: skip


def _link(text):
    """``GT/WIDTH/MAX_GT/MAX_WIDTH``."""
    speed, width, max_speed, max_width = text.split("/")
    return Link(float(speed), int(width), float(max_speed), int(max_width))


def _gpus(value):
    """``ADDRESS NAME_WITH_UNDERSCORES [pm=on|off] [mig=on] [fabric=STATE/STATUS]``; or a status and its detail."""
    if isinstance(value, dict):
        return Reading(None, ReadStatus(value["status"]), value["detail"])
    if isinstance(value, str):
        return _reading(value)
    gpus = []
    for index, text in enumerate(value):
        address, name, *rest = text.split()
        options = dict(word.split("=", 1) for word in rest)
        state, _, status = options.get("fabric", "").replace("_", " ").partition("/")
        gpus.append(
            Gpu(
                index, f"GPU-{index}", name.replace("_", " "), address, "580.1", 1, _on(options.get("pm")), True, 0,
                Link(32.0, 16, 32.0, 16), _on(options.get("mig", "off")), "Default", state or None, status or None,
            )
        )  # fmt: skip
    return Reading(tuple(gpus))


def _topology(text):
    """``GPU0-NIC0=PXB ...``: how far each is from the other."""
    if not text:
        return _reading("absent")
    cells = {tuple(pair.split("-")): word for pair, word in (item.split("=") for item in text.split())}
    columns = tuple(sorted({column for _, column in cells}))
    names = sorted({row for row, _ in cells})
    rows = tuple((name, tuple(cells.get((name, column), "SYS") for column in columns)) for name in names)
    return Reading(GpuTopology(columns, rows, (), ()))


def _on(word):
    return {"on": True, "off": False}.get(word)


def _docker(docker):
    """The engine's version or a status word, and what a case says of CDI, runtimes and daemon.json."""
    engine = str(docker.get("engine", "absent"))
    engine_reading = _reading(engine)
    if engine[0].isdigit():
        runtimes = tuple(docker.get("runtimes", "runc").split())
        cdi_dirs = tuple(docker.get("cdi_dirs", "").split())
        engine_reading = Reading(
            DockerEngine(
                engine, runtimes, "runc", cdi_dirs, "systemd", "overlay2", "/var/lib/docker", (),
                docker.get("running"), docker.get("live_restore", False),
            )
        )  # fmt: skip
    specs = docker.get("cdi_specs", {})
    return Docker(
        docker.get("binary"), True, True, engine_reading, _reading(docker.get("daemon_json", "absent")),
        tuple(specs), tuple(["nvidia.com/gpu"] if specs else []),
        tuple((path, version) for path, version in specs.items() if version),
        _reading(docker.get("toolkit", "absent")), tuple(docker.get("rootless", "").split()),
    )  # fmt: skip


def _unit(text):
    """``NAME ACTIVE [ENABLED [LIMITMEMLOCK]]``."""
    name, active, *enabled = text.split()
    return Unit(name, "loaded", active, *(enabled or ["enabled"]))


def _rdma(text):
    """``NAME [pci=ADDRESS] [guid=..] [fw=..] [board=..] [netdev=..] PORT...``.

    A port is ``1:ACTIVE:LinkUp:400:InfiniBand`` and may end in ``:WIDTH``; ``gid=PORT/INDEX/GID/TYPE/NETDEV`` and
    ``count=PORT/NAME/VALUE`` add to one.
    """
    name, *words = text.split()
    options = {"guid": "0000:0000:0000:0001", "fw": "28.39", "netdev": ""}
    gids, counters, ports = {}, {}, []
    for word in words:
        key, equals, value = word.partition("=")
        if key == "gid":
            port, index, gid, kind, netdev = value.split("/")
            entry = Gid(int(index), gid, kind.replace("_", " ") or None, netdev or None)
            gids.setdefault(int(port), []).append(entry)
        elif key == "count":
            port, counter, number = value.split("/")
            counters.setdefault(int(port), []).append((counter, int(number)))
        elif equals:
            options[key] = value
    for word in words:
        if "=" in word:
            continue
        number, state, phys, rate, layer, *width = word.split(":")
        at = int(number)
        ports.append(
            RdmaPort(
                at, state, phys, float(rate), f"{rate} Gb/sec ({''.join(width) or '4X'})", layer, 1, 1,
                tuple(gids.get(at, ())), tuple(counters.get(at, ())),
            )
        )  # fmt: skip
    return RdmaDevice(
        name, options["guid"], options["fw"], options.get("board"), "CA", options.get("pci"), 0,
        tuple(filter(None, options["netdev"].split(","))), tuple(ports),
    )  # fmt: skip


def _interfaces(value):
    """``NAME MTU [MASTER] [ADDRESS/LENGTH...]``."""
    if isinstance(value, str):
        return _reading(value)
    found = []
    for text in value:
        name, mtu, *rest = text.split()
        addresses = tuple(word for word in rest if "/" in word)
        master = "".join(word for word in rest if "/" not in word) or None
        found.append(Interface(name, "up", int(mtu), "", None, None, None, None, master, addresses))
    return Reading(tuple(found))


def _clock(words):
    """``offset``, ``uncertainty`` (seconds; None: not known), ``source``, ``synchronized`` (or a status word)."""
    return Clock(
        words.get("offset", 0.0), words.get("uncertainty", 0.01), words.get("source", "chrony"),
        _reading(words.get("synchronized", True)),
    )  # fmt: skip


def _lines(texts):
    return tuple(ConfigLine(*line.split(": ", 1)) for line in texts)


def _memlock(text):
    if text == "unlimited":
        return Reading(Limit(-1, -1))
    if not str(text)[0].isdigit():
        return _reading(text)
    soft, _, hard = str(text).partition("/")
    return Reading(Limit(int(soft) * 1024, -1 if hard == "unlimited" else int(hard or soft) * 1024))


def _limit(value):
    return Reading(Limit(value, value)) if isinstance(value, int) else _reading(value)


def _shm(value):
    return (
        Reading((Space("/dev/shm", "/dev/shm", value, value),)) if isinstance(value, int) else _reading(value)
    )


def _governors(value):
    if isinstance(value, str):
        return _reading(value)
    return Reading(
        tuple(
            Governor(g["name"], tuple(g.get("available", "performance powersave").split()), tuple(g["cpus"]))
            for g in value
        )
    )


def _sysctls(f):
    balancing = f["numa_balancing"]
    own = {"kernel.numa_balancing": balancing} if isinstance(balancing, int) else {}
    return tuple(Sysctl(name, str(value)) for name, value in {**own, **f["sysctls"]}.items())


def _sections(f):
    managed = [
        SectionNote("managed", ReadStatus(word), 0, "", False) for word in f["managed_section"].split()
    ]
    if f["sysctl_section"] == "read-only":
        return (*managed, SectionNote("sysctl", ReadStatus.OK, 0, "/proc/sys is read-only", False))
    return (*managed, SectionNote("sysctl", ReadStatus(f["sysctl_section"]), 0, "", False))


def _section(name, text):
    """A section as the node printed it, or a status word."""
    status = {"failed": 1, "absent": 127, "denied": 77}.get(text)
    return Sections({name: Section(name, "" if status else text, status or 0)})


def _ssh_mesh(f):
    """The section as printed; what clusterctl keeps in files is given apart, by path."""
    found = ssh_mesh.parse(_section("ssh_mesh", f["ssh_mesh"]))
    return replace(found, own=tuple(OwnText(path, text) for path, text in f["ssh_own"].items()))


def _mounts(lines):
    if isinstance(lines, str):
        return _reading(lines)
    return Reading(tuple(Mount(w[0], w[1], w[2], ("rw",)) for w in map(str.split, lines)))


def facts_of(case):
    """Build a node's facts from a case's few words."""
    unknown = set(case) - set(DEFAULTS)
    assert not unknown, f"the case names unknown facts: {unknown}"
    f = {**DEFAULTS, **case}
    none = Reading(None, ReadStatus.ABSENT, "not part of the case")
    system = System(
        Reading("n1"), _reading(OS[f["os"]]), _reading(f["kernel"]), Reading(f["machine"]),
        Reading(tuple(f["cmdline"].split())), Reading(f["boot_id"]), Reading(9.0),
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
    return NodeFacts(
        name="n1", gathered_at=0.0, duration_s=0.1, root=RootAccess(0, f["root"]), system=system,
        cpu=Cpu(
            Reading(CpuTopology("cpu", (0, 1), 2, 1, False)),
            _reading(f["numa"]) if isinstance(f["numa"], str)
            else Reading(tuple(NumaNode(index, (index,)) for index in range(f["numa"]))),
            _governors(f["governors"]), _reading(f["numa_balancing"]),
            None if f["frequency"] is None else Frequency(**f["frequency"]),
        ),
        memory=Memory(Reading(1), Reading(1), (), none),
        limits=Limits(
            _memlock(f["memlock"]), _limit(f["nofile"]), _limit(f["stack"]), none,
            _lines(f["limits"]), _lines(f["sshd"]), _lines(f["shell_lines"]), f["shell"],
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
        gpu=GpuFacts(
            _gpus(f["gpus"]), _topology(f["topology"]), none, gpu_driver, licence, _reading(f["module_version"]),
            _reading(f["fabric_manager"]), tuple(f["fabric_devices"].split()),
        ),
        rdma=Rdma(
            _reading(rdma), f["libibverbs"], tuple(f["providers"].split()), tuple(f["uverbs"].split()),
            listed_reading,
        ),
        network=Network(_interfaces(f["interfaces"]), True, _reading(f["default_route"])),
        docker=_docker(f["docker"]),
        storage=Storage(_mounts(f["mounts"]), _shm(f["shm_bytes"])), clock=_clock(f["clock"]),
        services=Services(
            _reading(f["units"]) if isinstance(f["units"], str) else Reading(tuple(_unit(u) for u in f["units"]))
        ),
        software=Software(
            f["manager"], tuple(Tool(t, f"/usr/bin/{t}") for t in f["tools"].split()),
            Reading(tuple(Package(*word.split("=", 1)) for word in f["packages"].split())),
            _lines(f["repositories"]),
        ),
        sysctls=_sysctls(f),
        managed_files=tuple(ManagedFile(path, text) for path, text in f["managed"].items()),
        sections=_sections(f),
        host_config=_lines(f["host_config"]),
        rdma_files=_reading(f["rdma_files"]) if isinstance(f["rdma_files"], str)
        else Reading(tuple(FileSum(path, digest) for path, digest in f["rdma_files"].items())),
        ssh_mesh=_ssh_mesh(f),
        nfs=nfs.parse(_section("nfs", f["nfs"])),
    )  # fmt: skip


SUBJECT_OF = {
    "gpudirect": "modules",
    "sysctls": "configuration",
    "managed_files": "configuration",
    "host_config": "configuration",
    "rdma_files": "configuration",
}
OF_EVERY_PROBE = {"name", "gathered_at", "duration_s", "root", "sections"}


class NotAsked:
    """Stands where facts would be that the node was not asked for: whoever looks at them is told so."""

    def __init__(self, field):
        self.field = field

    def __getattr__(self, name):
        raise AssertionError(f"{self.field}.{name} is read, and the requirement's READS do not say so")

    def __iter__(self):
        raise AssertionError(f"{self.field} is read, and the requirement's READS do not say so")


def _asked_only(facts, subjects):
    known = {*OF_EVERY_PROBE, *complete(subjects)}
    left_out = {field.name for field in fields(facts) if SUBJECT_OF.get(field.name, field.name) not in known}
    return replace(facts, **{name: NotAsked(name) for name in left_out})


def _spoken(step):
    """A step in a case's words: its kind, what it changes, and the value where there is one."""
    if step.kind == "command" and step.argv[0] == "sh":
        if "\n" in step.argv[2]:
            return " ".join(["script", *step.argv[3:]])
        return "INSTALL" if "install -D" in step.argv[2] else step.argv[2]
    words = [step.kind, *target(step)[1:]]
    if step.kind in ("set-register", "write-value"):
        words += [f"{step.prior}->{step.value}"]
    return " ".join(words)


@pytest.mark.parametrize("path", CASES, ids=[f"{p.parent.name}/{p.stem}" for p in CASES])
def test_case(path):
    case = yaml.safe_load(path.read_text())
    assert set(case) <= {"about", "facts", "node", "everyone", "nodes", "expect", "peers", "earlier"}
    assert case["about"]
    facts = facts_of(case.get("facts", {}))
    everyone = case.get("everyone", {})
    node = Node.model_validate({"name": "n1", "address": "n1", **everyone, **case.get("node", {})})
    requirement = ALL[path.parent.name]
    # Each peer's facts are given as where they differ from this node's.
    peers = {name: facts_of({**case.get("facts", {}), **of}) for name, of in case.get("peers", {}).items()}
    said = case.get("nodes", {})
    others = tuple(
        Node.model_validate({"name": name, "address": name, **everyone, **said.get(name, {})})
        for name in dict.fromkeys((*peers, *said))
    )
    earlier = {node.name: facts_of({**case.get("facts", {}), **case["earlier"]})} if "earlier" in case else {}
    fleet = Fleet((node, *others), {node.name: facts, **peers}, earlier)
    verdict = requirement.judge(facts, node, fleet)
    expect = case["expect"]
    assert verdict.requirement == path.parent.name
    assert verdict.status.value == expect["status"], verdict
    for part in expect.get("reason", []):
        assert part in verdict.reason
    assert len(expect.get("warnings", [])) == len(verdict.warnings), verdict.warnings
    for part, warning in zip(expect.get("warnings", []), verdict.warnings, strict=True):
        assert part in warning
    steps = requirement.steps(facts, node, fleet)
    assert [_spoken(step) for step in steps] == expect.get("steps", [])
    # Nothing else is asked of nodes when only this requirement is checked.
    asked, others_asked, then = (
        {name: _asked_only(found, requirement.READS) for name, found in of.items()}
        for of in ({node.name: facts}, peers, earlier)
    )
    among = Fleet((node, *others), {**asked, **others_asked}, then)
    assert requirement.judge(asked[node.name], node, among) == verdict
    assert requirement.steps(asked[node.name], node, among) == steps
    for name, part in expect.get("content", {}).items():
        assert part in next(step.content for step in steps if getattr(step, "path", None) == name)
    for name, text in expect.get("whole", {}).items():
        assert next(step.content for step in steps if getattr(step, "path", None) == name) == text
    # What is not unmet is not touched, and all of it survives the run folder's files.
    if verdict.status is not Status.UNMET:
        assert steps == ()
    assert from_document(to_document(facts)) == facts
    plan = Plan((build(facts, node, (verdict,), ALL, fleet),))
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
        "sysctl_section": "failed", "numa": "failed", "numa_balancing": "failed", "rdma_files": "failed",
        "clock": {"offset": None, "uncertainty": None, "source": "none", "synchronized": "failed"},
        "ssh_mesh": "failed", "nfs": "failed", "mounts": "failed",
    }  # fmt: skip
    wanted = {
        "ssh_mesh": {"require": True},
        "shared_dir": {"path": "/shared", "server": "n2"},
        "cluster_file": {"content": "n1\n"},
    }
    node, other = (
        Node.model_validate({"name": name, "address": name, "requirements": wanted}) for name in ("n1", "n2")
    )
    facts = facts_of(empty)
    fleet = Fleet((node, other), {"n1": facts})
    (verdict,) = judge_node(facts, node, only=[name], fleet=fleet)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason
    assert ALL[name].steps(facts, node, fleet) == ()


def test_requirements_left_out_are_not_judged():
    facts = facts_of({})
    node = Node.model_validate({"name": "n1", "address": "n1", "requirements": {"skip": ["docker"]}})
    judged = [v.requirement for v in judge_node(facts, node, skip=["acs"])]
    assert judged == [name for name in ALL if name not in ("acs", "docker")]
    assert [v.requirement for v in judge_node(facts, node, only=["memlock", "docker"])] == ["memlock"]


@pytest.mark.parametrize(
    ("only", "skip", "skipped", "said"),
    [
        (["memlock"], ["memlock"], [], "nothing is left to judge"),
        (["docker", "memlock"], ["memlock"], ["docker"], "the inventory skips docker on every node"),
        (None, [], list(ALL), "the inventory skips time-sync, gpu-driver, "),
    ],
)
def test_a_check_of_nothing_is_refused(only, skip, skipped, said):
    settings = {"requirements": {"skip": skipped}}
    nodes = [Node.model_validate({"name": name, "address": name, **settings}) for name in ("n1", "n2")]
    with pytest.raises(UsageError, match=said):
        refuse_nothing_to_judge(nodes, only, skip)
    nodes.append(Node(name="n3", address="n3"))
    if not skip or skipped:
        refuse_nothing_to_judge(nodes, only, skip)
