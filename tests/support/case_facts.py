"""A node's facts from the few words of a requirement's recorded case; the rest is a plain bare-metal Debian node."""

from __future__ import annotations

from dataclasses import replace

from case_devices import (
    bonds,
    gpu_reading,
    gpu_topology,
    interface_reading,
    nvlinks,
    pci_device,
    rdma_device,
    reading,
)

from clusterctl.facts.base import Reading, ReadStatus, Section, Sections
from clusterctl.facts.model.devices import GpuDriver, GpuFacts, Pci
from clusterctl.facts.model.fabric import GpuDirect, KernelModule, KernelModules, Network, Rdma
from clusterctl.facts.model.health import GpuHealth, Health
from clusterctl.facts.model.host import (
    ConfigLine,
    Cpu,
    CpuTopology,
    Frequency,
    Governor,
    Limit,
    Limits,
    Memory,
    NumaNode,
    OsRelease,
    RootAccess,
    System,
    Virtualization,
)
from clusterctl.facts.model.node import NodeFacts, SectionNote
from clusterctl.facts.model.services import (
    Clock,
    Docker,
    DockerEngine,
    FileSum,
    Inodes,
    ManagedFile,
    Mount,
    Package,
    Services,
    Software,
    Space,
    Storage,
    Sysctl,
    Tool,
    Unit,
)
from clusterctl.facts.model.sharing import FirmwareWord, OwnText, Versions
from clusterctl.facts.subjects import mpi, nfs, python, ssh_mesh
from clusterctl.facts.subjects.health import parse_log
from clusterctl.facts.subjects.services import UNITS

OS = {
    "debian": OsRelease("debian", (), "12", "Debian GNU/Linux 12", "bookworm"),
    "ubuntu": OsRelease("ubuntu", ("debian",), "22.04", "Ubuntu 22.04", "jammy"),
    "rocky": OsRelease("rocky", ("rhel", "centos", "fedora"), "9.4", "Rocky Linux 9.4"),
    **{
        f"{short}{major}": OsRelease(name, like, f"{major}.{minor}", f"{title} {major}.{minor}")
        for short, name, like, title in (
            ("rhel", "rhel", ("fedora",), "Red Hat Enterprise Linux"),
            ("alma", "almalinux", ("rhel", "centos", "fedora"), "AlmaLinux"),
            ("rocky", "rocky", ("rhel", "centos", "fedora"), "Rocky Linux"),
        )
        for major, minor in ((8, 10), (9, 6), (10, 0))
    },
    "fedora": OsRelease("fedora", (), "40", "Fedora Linux 40"),
    "trixie": OsRelease("debian", (), "13", "Debian GNU/Linux 13", "trixie"),
    "amzn": OsRelease("amzn", ("fedora",), "2023", "Amazon Linux 2023"),
    "amzn2": OsRelease("amzn", ("centos", "rhel", "fedora"), "2", "Amazon Linux 2"),
    "centos7": OsRelease("centos", ("rhel", "fedora"), "7", "CentOS Linux 7 (Core)"),
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
    "lockdown": "none",
    "root": "root",
    "manager": "apt",
    "tools": "setpci lspci modprobe depmod gcc make",
    "headers": "/lib/modules/6.1.0-30-amd64/build",
    "pci": [],
    "driver": "absent",
    "modules": "",
    "built_in": "",
    "installed": "",
    "at_boot": [],
    "modprobe": [],
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
    "gpu_health": "absent",
    "kernel_log": [],
    "module_version": "absent",
    "topology": "",
    "nvlinks": "",
    "fabric_manager": "absent",
    "fabric_devices": "",
    "packages": "",
    "sysctls": {},
    "sysctl_section": "ok",
    "host_config": [],
    "kept_config": "absent",
    "numa": 1,
    "numa_balancing": 0,
    "clock": {},
    "rdma_files": "absent",
    "interfaces": "absent",
    "bonds": [],
    "default_route": "absent",
    "nofile": 1048576,
    "stack": 8388608,
    "shm_bytes": "absent",
    "shell": "/bin/bash",
    "shell_lines": [],
    "sshd": [],
    "frequency": None,
    "boot_id": "b",
    "hostname": "n1",
    "repositories": [],
    "ssh_mesh": "login root 0 /root\ntool ssh\ntool ssh-keygen\n",
    "ssh_own": {},
    "nfs": "absent",
    "mpi": "",
    "python": "distribution /usr/bin/python3.11 yes yes yes\npython /usr/bin/python3\npython-version 3.11.2\n",
    "mounts": "absent",
    "disk": "absent",
    "inodes": "ok",
    "product": "",
}


def _docker(docker):
    """The engine's version or a status word, and what a case says of CDI, runtimes and daemon.json."""
    engine = str(docker.get("engine", "absent"))
    engine_reading = reading(engine)
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
        docker.get("binary"), docker.get("socket", True), True, engine_reading,
        reading(docker.get("daemon_json", "absent")),
        tuple(specs), tuple(["nvidia.com/gpu"] if specs else []),
        tuple((path, version) for path, version in specs.items() if version),
        reading(docker.get("toolkit", "absent")), tuple(docker.get("rootless", "").split()),
        docker.get("cdi_unseen", ""), docker.get("daemon_mode"), docker.get("hook_came_later", False),
        tuple(map(tuple, docker.get("cdi_majors", ()))), tuple(docker.get("kernel_majors", {}).items()),
    )  # fmt: skip


def _unit(text):
    """``NAME ACTIVE [ENABLED [LIMITMEMLOCK]]``."""
    name, active, *enabled = text.split()
    assert name in UNITS, f"the probe does not ask about {name}"
    return Unit(name, "loaded", active, *(enabled or ["enabled"]))


def _clock(words):
    """``offset``, ``uncertainty`` (seconds; None: not known), ``source``, ``synchronized`` (or a status word)."""
    return Clock(
        words.get("offset", 0.0), words.get("uncertainty", 0.01), words.get("source", "chrony"),
        reading(words.get("synchronized", True)),
    )  # fmt: skip


def _lines(texts):
    return tuple(ConfigLine(*line.split(": ", 1)) for line in texts)


def _memlock(text):
    if text == "unlimited":
        return Reading(Limit(-1, -1))
    if not str(text)[0].isdigit():
        return reading(text)
    soft, _, hard = str(text).partition("/")
    return Reading(Limit(int(soft) * 1024, -1 if hard == "unlimited" else int(hard or soft) * 1024))


def _limit(value):
    return Reading(Limit(value, value)) if isinstance(value, int) else reading(value)


def _shm(value):
    return (
        Reading((Space("/dev/shm", "/dev/shm", value, value),)) if isinstance(value, int) else reading(value)
    )


def _governors(value):
    if isinstance(value, str):
        return reading(value)
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


def _health(f):
    """``gpu_health``: ``ADDRESS [COUNTER=NUMBER] [STATE=WORD] [slowed=REASON]``; ``kernel_log``: lines of dmesg."""
    gpus, log = f["gpu_health"], f["kernel_log"]
    return Health(
        gpus=reading(gpus)
        if isinstance(gpus, str)
        else Reading(tuple(map(_gpu_health, range(len(gpus)), gpus))),
        log=reading(log) if isinstance(log, str) else Reading(parse_log("\n".join(["@faults", *log, ""]))),
    )


def _gpu_health(index, text):
    address, *words = text.split()
    said = [word.split("=", 1) for word in words]
    counts = {"ecc_corrected": 0, "ecc_uncorrected": 0, **{k: int(v) for k, v in said if v.isdigit()}}
    states = {
        "remap_pending": "No",
        **{k: v.replace("_", " ") for k, v in said if not v.isdigit() and k != "slowed"},
    }
    slowed = tuple(value for key, value in said if key == "slowed")
    return GpuHealth(
        index, f"GPU-{index}", address, tuple(counts.items()), tuple(states.items()), slowed, 40, 45, 345
    )


def _sections(f):
    managed = [
        SectionNote("managed", ReadStatus(word), 0, "", False) for word in f["managed_section"].split()
    ]
    if f["kept_config"] != "absent":
        managed.append(SectionNote("kept_config", ReadStatus(f["kept_config"]), None, "", False))
    if f["sysctl_section"] == "read-only":
        return (*managed, SectionNote("sysctl", ReadStatus.OK, 0, "/proc/sys is read-only", False))
    return (*managed, SectionNote("sysctl", ReadStatus(f["sysctl_section"]), 0, "", False))


def _section(name, text):
    """A section as the node printed it, or a status word."""
    status = {"failed": 1, "absent": 127, "denied": 77}.get(text)
    return Sections({name: Section(name, "" if status else text, status or 0)})


def _ssh_mesh(f):
    """The section as printed; what clusterctl keeps in files is given apart, by path, as a list of several blocks."""
    found = ssh_mesh.parse(_section("ssh_mesh", f["ssh_mesh"]))
    own = [(path, of if isinstance(of, list) else [of]) for path, of in f["ssh_own"].items()]
    return replace(found, own=tuple(OwnText(path, text) for path, texts in own for text in texts))


def _mounts(lines):
    if isinstance(lines, str):
        return reading(lines)
    """``SOURCE TARGET TYPE [OPTIONS]``; or a status word."""
    words = (f"{line} rw".split()[:4] for line in lines)
    return Reading(tuple(Mount(w[0], w[1], w[2], tuple(w[3].split(","))) for w in words))


def _storage(f):
    """Lines ``PATH MOUNT FREE_MIB FREE_INODES`` (or a status word), the status of the inodes, and /dev/shm."""
    mounts, shm = _mounts(f["mounts"]), _shm(f["shm_bytes"])
    if isinstance(f["disk"], str):
        return Storage(mounts, shm if f["disk"] == "absent" else reading(f["disk"]))
    rows = [line.split() for line in f["disk"]]
    space = tuple(Space(path, at, 64 << 30, int(mib) << 20) for path, at, mib, _ in rows)
    inodes = tuple(Inodes(path, at, 1 << 22, int(free)) for path, at, _, free in rows if free != "-")
    read = Reading(inodes) if f["inodes"] == "ok" else reading(f["inodes"])
    return Storage(mounts, Reading((*space, *shm.or_else(()))), read)


def facts_of(case):
    """Build a node's facts from a case's few words."""
    unknown = set(case) - set(DEFAULTS)
    assert not unknown, f"the case names unknown facts: {unknown}"
    f = {**DEFAULTS, **case}
    none = Reading(None, ReadStatus.ABSENT, "not part of the case")
    system = System(
        reading(f["hostname"]), reading(OS[f["os"]]), reading(f["kernel"]), Reading(f["machine"]),
        Reading(tuple(f["cmdline"].split())), Reading(f["boot_id"]), Reading(9.0),
        Reading(Virtualization(f["vm"], f["container"], "systemd-detect-virt")) if f["vm"] != "unknown" else none,
        Reading("systemd"), f["systemd"], reading(f["secure_boot"]), f["lockdown"],
    )  # fmt: skip
    driver = f["driver"]
    if isinstance(driver, str) and " " in driver:
        version, flavour = driver.split()
        gpu_driver, licence = (
            Reading(GpuDriver(version, flavour)),
            reading("Dual MIT/GPL" if flavour == "open" else "NVIDIA"),
        )
    else:
        gpu_driver, licence = reading(driver), none
    devices = f["pci"] if isinstance(f["pci"], str) else tuple(pci_device(d) for d in f["pci"])
    rdma = f["rdma"] if isinstance(f["rdma"], str) else tuple(rdma_device(d) for d in f["rdma"])
    listed = f["ibv_devices"]
    if listed == "same":
        listed_reading = Reading(() if isinstance(rdma, str) else tuple(d.name for d in rdma))
    else:
        listed_reading = (
            reading(listed) if listed in ("absent", "failed", "empty") else Reading(tuple(listed.split()))
        )
    return NodeFacts(
        name="n1", gathered_at=0.0, duration_s=0.1, root=RootAccess(0, f["root"]), system=system,
        cpu=Cpu(
            Reading(CpuTopology("cpu", (0, 1), 2, 1, False)),
            reading(f["numa"]) if isinstance(f["numa"], str)
            else Reading(tuple(NumaNode(index, (index,)) for index in range(f["numa"]))),
            _governors(f["governors"]), reading(f["numa_balancing"]),
            None if f["frequency"] is None else Frequency(**f["frequency"]),
        ),
        memory=Memory(Reading(1), Reading(1), (), none),
        limits=Limits(
            _memlock(f["memlock"]), _limit(f["nofile"]), _limit(f["stack"]), none,
            _lines(f["limits"]), _lines(f["sshd"]), _lines(f["shell_lines"]), f["shell"],
        ),
        modules=KernelModules(
            Reading(tuple(KernelModule(*word.partition(":")[::2]) for word in f["modules"].split())),
            Reading(tuple(f["installed"].split())),
            tuple(ConfigLine("/etc/modules-load.d/x.conf", name) for name in f["at_boot"]),
            tuple(ConfigLine("/etc/modprobe.d/x.conf", line) for line in f["modprobe"]),
            reading(f["headers"]), tuple(f["built_in"].split()),
        ),
        gpudirect=GpuDirect(
            reading(f["nv_peer_mem"]), reading(f["nvidia_peermem"]), reading(f["peer_memory_api"]),
            reading(f["ofed"]), reading(f["dmabuf_verbs"]),
        ),
        pci=Pci(reading(devices)),
        gpu=GpuFacts(
            gpu_reading(f["gpus"]), gpu_topology(f["topology"]), nvlinks(f["nvlinks"]), gpu_driver, licence,
            reading(f["module_version"]), reading(f["fabric_manager"]), tuple(f["fabric_devices"].split()),
        ),
        rdma=Rdma(
            reading(rdma), f["libibverbs"], tuple(f["providers"].split()), tuple(f["uverbs"].split()),
            listed_reading,
        ),
        network=Network(
            interface_reading(f["interfaces"]), True, reading(f["default_route"]), bonds(f["bonds"])
        ),
        docker=_docker(f["docker"]),
        storage=_storage(f), clock=_clock(f["clock"]),
        services=Services(
            reading(f["units"]) if isinstance(f["units"], str) else Reading(tuple(_unit(u) for u in f["units"]))
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
        rdma_files=reading(f["rdma_files"]) if isinstance(f["rdma_files"], str)
        else Reading(tuple(FileSum(path, digest) for path, digest in f["rdma_files"].items())),
        ssh_mesh=_ssh_mesh(f),
        health=_health(f),
        nfs=nfs.parse(_section("nfs", f["nfs"])),
        mpi=mpi.parse(_section("mpi", f["mpi"])),
        python=python.parse(_section("python", f["python"])),
        versions=Versions((FirmwareWord("product_name", f["product"]),) if f["product"] else ()),
    )  # fmt: skip
