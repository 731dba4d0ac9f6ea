"""The lab's guests: they are real, and what the other lab tests believe them to be.

That a guest which lost its power boots again with its disk is shown by ``test_bench_qemu.py``, which cuts one's power.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusterctl import lab as labs
from clusterctl.errors import LabError
from clusterctl.lab import LabOptions
from clusterctl.lab.qemu import find_guests

PORTS = ("00:10.0", "00:11.0", "00:12.0", "00:13.0")
MPI = (
    "mpirun --allow-run-as-root --host node1,node2 -np 2"
    " --mca btl_tcp_if_include fabric0 --mca oob_tcp_if_include fabric0 hostname"
)


# One session says all of a node: without KVM each takes seconds.
def test_root_ports_have_acs_registers_that_hold_what_is_written(qemu_lab):
    # Source validation, redirection and upstream forwarding (what a real platform's firmware sets), and nothing.
    script = "; ".join(
        f"setpci -s {port} ECAP_ACS+6.w={value}; setpci -s {port} ECAP_ACS+6.w"
        for value in ("0x1d", "0")
        for port in PORTS
    )
    assert qemu_lab.output("node1", script).split() == ["001d"] * 4 + ["0000"] * 4


def test_gpu_and_nic_sit_behind_their_own_root_ports(qemu_lab):
    script = """set -e
    for device in 01:00.0 02:00.0 03:00.0; do readlink -f /sys/bus/pci/devices/0000:$device; done
    lspci -n -s 01:00.0
    lspci -n -s 02:00.0
    readlink -f /sys/class/net/fabric0/device"""
    for node in ("node1", "node2"):
        *paths, gpu, nic, interface = qemu_lab.output(node, script).splitlines()
        assert [path.split("/")[-2] for path in paths] == ["0000:00:10.0", "0000:00:11.0", "0000:00:12.0"]
        assert [line.split()[2] for line in (gpu, nic)] == ["1234:11e8", "8086:10d3"]
        assert interface.endswith("/0000:02:00.0")


def test_soft_roce_is_active_on_the_fabric(qemu_lab):
    device = "/sys/class/infiniband/rxe0"
    script = f"set -e; cat {device}/ports/1/state {device}/parent; ibv_devinfo -d rxe0"
    for node in ("node1", "node2"):
        state, parent, *report = qemu_lab.output(node, script).splitlines()
        assert (state, parent) == ("4: ACTIVE", "fabric0")
        assert any("PORT_ACTIVE" in line for line in report)


def test_rdma_writes_cross_the_fabric(qemu_lab):
    server = qemu_lab.lab.ssh_argv("node1", "timeout 90 ib_write_bw -d rxe0 -n 20 -s 4096")
    with subprocess.Popen(server, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            ready = (
                "for i in $(seq 60); do ss -Hltn sport = :18515 | grep -q . && exit 0; sleep 1; done; exit 1"
            )
            qemu_lab.run("node1", ready)
            report = qemu_lab.output("node2", "timeout 90 ib_write_bw -d rxe0 -n 20 -s 4096 node1")
            assert process.wait(90) == 0
        finally:
            process.kill()
    rows = [line.split() for line in report.splitlines() if line.split()[:1] == ["4096"]]
    assert len(rows) == 1
    assert float(rows[0][3]) > 0


def test_guests_reach_each_other_by_name_and_address(qemu_lab):
    one, two = qemu_lab.lab.nodes
    assert " 0% packet loss" in qemu_lab.output("node1", f"ping -c 3 {two.fabric_address}")
    assert qemu_lab.output("node1", "ssh -o BatchMode=yes node2 hostname") == "node2"
    assert qemu_lab.output("node2", f"ssh -o BatchMode=yes {one.fabric_address} hostname") == "node1"
    ranks = qemu_lab.output("node1", MPI, 300)
    assert sorted(ranks.split()) == ["node1", "node2"]


def test_limits_and_users_are_those_of_a_plain_debian(qemu_lab):
    assert qemu_lab.output("node1", "ulimit -l") != "unlimited"
    assert qemu_lab.output("node1", "sudo -u lab sudo -n id -u") == "0"
    argv = list(qemu_lab.lab.ssh_argv("node2", "id -un; sudo -n id -un"))
    argv = [word.replace("root@", "lab@") for word in argv]
    done = subprocess.run(argv, capture_output=True, check=True, text=True, timeout=120)
    assert done.stdout.split() == ["lab", "root"]


def test_docker_runs_containers_inside_a_guest(qemu_lab):
    qemu_lab.run("node2", "docker info", 300)
    # An image of one static file: larger imports take many minutes without KVM.
    script = (
        "d=$(mktemp -d) && mkdir $d/bin && cp /bin/busybox $d/bin/ "
        "&& tar -C $d -c . | docker import - tiny >&2 "
        "&& rm -r $d && docker run --rm --ulimit memlock=-1 --network host --hostname inside tiny "
        "/bin/busybox sh -c 'ulimit -l; /bin/busybox hostname'; code=$?; docker rmi tiny >&2; exit $code"
    )
    assert qemu_lab.output("node2", script, 300).split() == ["unlimited", "inside"]


def test_a_lab_that_does_not_come_up_leaves_nothing(qemu_lab, tmp_path):
    folder = tmp_path / "lab"
    with pytest.raises(LabError, match="does not answer SSH"):
        labs.up(LabOptions(driver="qemu", nodes=1, directory=folder, ssh_timeout_s=0.5))
    assert not folder.exists()
    assert _processes_naming(folder) == []
    # The session's own guests were not touched.
    assert len(find_guests(qemu_lab.lab.lab_id)) == 2


# `lab up`, killed when its guest runs and before that is recorded.
KILLED_UP = """
import os, signal, sys
from pathlib import Path
from clusterctl import lab as labs
from clusterctl.lab import lifecycle

save = lifecycle.save
lifecycle.save = lambda lab: os.kill(os.getpid(), signal.SIGKILL) if lab.nodes else save(lab)
labs.up(labs.LabOptions(driver="qemu", nodes=1, directory=Path(sys.argv[1])))
"""


def test_down_removes_what_a_killed_up_left(qemu_lab, tmp_path):
    folder = tmp_path / "lab"
    done = subprocess.run(
        (sys.executable, "-c", KILLED_UP, str(folder)),
        cwd=Path(__file__).parents[2],
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    try:
        assert _processes_naming(folder)
        assert labs.load(folder).nodes == ()
    finally:
        found = labs.down(folder)
    assert found is True
    assert _processes_naming(folder) == []
    assert not folder.exists()
    assert labs.down(folder) is False
    assert len(find_guests(qemu_lab.lab.lab_id)) == 2


def _processes_naming(folder: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Not qemu-img, which also names the directory and ends by itself.
        if words[0].endswith(b"qemu-system-x86_64") and any(os.fsencode(folder) in word for word in words):
            found.append(int(path.parent.name))
    return found
