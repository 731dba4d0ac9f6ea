"""The health of a node, read for real: in every shell, with an nvidia-smi that hangs, and from a server's /sys."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import facts_recorded as recorded
import fake_sysfs
from listening import wait_until

from clusterctl.facts import probe
from clusterctl.facts.base import ReadStatus
from clusterctl.facts.catalog import facts_from
from clusterctl.facts.model.health import Health
from clusterctl.facts.snapshot import READS
from clusterctl.facts.subjects import gpu_health

_INNER, _OUTER = f"t {gpu_health.DEADLINE_S} ", f"t {gpu_health.DEADLINE_S + 2} "
"""The deadlines of nvidia-smi and of who reads it: hurried only where nothing answers, for a busy machine is slow."""
NONCE = "c" * 32
DOCUMENT, _, LINKS = recorded.load(recorded.CASES / "health" / "h200-x2.txt")["gpu_health"].text.partition(
    "@links\n"
)


def _read(shell: tuple[str, ...], folder: Path, *replacing: tuple[str, str]) -> Health:
    script = probe.build_script(NONCE, subjects=READS)
    for old, new in replacing:
        assert old in script
        script = script.replace(old, new)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(shell, input=script.encode(), capture_output=True, timeout=120, check=True, env=env)
    answer = probe.split(done.stdout.decode(), NONCE, READS)
    facts = facts_from("n", answer.sections, answer.root, gathered_at=0, duration_s=0, subjects=READS)
    return facts.health


def _nvidia_smi(folder: Path, body: str) -> None:
    (folder / "document.xml").write_text(DOCUMENT)
    (folder / "links.txt").write_text(LINKS.removesuffix("@end\n"))
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncd {folder}\n{body}\n")
    program.chmod(0o755)


def test_what_nvidia_smi_prints_beside_the_health_is_left_on_the_node(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    more = "<supported_graphics_clock>1980 MHz</supported_graphics_clock>"
    body = f'case $1 in -q) sed "s|^.*<uuid>|{more}\\n&|" document.xml;; *) cat links.txt;; esac'
    _nvidia_smi(tmp_path, body)
    found = _read(shell, tmp_path)
    assert [gpu.index for gpu in found.gpus.value or ()] == [0, 1]
    assert found.nvlinks.value == 6
    assert found.boot.value is not None and found.boot.value.uptime_s > 0
    assert found.counts.value


def test_an_nvidia_smi_that_hangs_costs_its_deadline_and_its_own_facts(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    _nvidia_smi(tmp_path, "exec sleep 20")
    found = _read(shell, tmp_path, (_INNER, "t 1 "), (_OUTER, "t 1 "))
    assert found.gpus.value is None and "did not answer" in found.gpus.detail
    assert found.counts.value and found.boot.value is not None


def test_an_nvidia_smi_that_no_signal_ends_is_left_behind(tmp_path: Path) -> None:
    """A child that holds the pipe, as a process that hangs in the kernel does."""
    _nvidia_smi(tmp_path, "sleep 300 & echo $! $$ >pids; exec sleep 300")
    found = _read(("sh",), tmp_path, (_INNER, "t 300 "), (_OUTER, "t 1 "))
    assert found.gpus.value is None and found.counts.value
    pids = tmp_path / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), "nvidia-smi did not start")
    for pid in map(int, pids.read_text().split()):
        os.kill(pid, signal.SIGKILL)  # fails if the probe had waited for its end


def test_links_that_hang_leave_the_gpus(tmp_path: Path) -> None:
    """The reader ends where its deadline would end it: when the document has come and the links have not."""
    _nvidia_smi(tmp_path, "case $1 in -q) exec cat document.xml;; *) sleep 20 & exec sleep 20;; esac")
    found = _read(("sh",), tmp_path, (f"{_OUTER}cat", "sed /^@links/q"))
    assert found.gpus.value is not None
    assert found.nvlinks.value is None and "nvlink -e did not answer" in found.nvlinks.detail


def test_the_counters_of_a_server(shell: tuple[str, ...], tmp_path: Path, namespaces: None) -> None:
    tree = fake_sysfs.Tree(tmp_path / "sys")
    for name, wanted in (("ens3f0", True), ("docker0", False)):
        tree.write(f"class/net/{name}/statistics/rx_errors", "7")
        tree.write(f"class/net/{name}/carrier_changes", "2")
        if wanted:
            tree.write(f"class/net/{name}/device/vendor", "0x15b3")
    tree.write("class/infiniband/mlx5_0/ports/1/counters/link_downed", "255")
    tree.write("class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "3")
    tree.write("devices/system/edac/mc/mc0/ue_count", "1")
    for cpu, count in ((0, 3), (1, 0)):
        tree.write(f"devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count", str(count))
    device = "bus/pci/devices/0000:3b:00.0"
    tree.write(f"{device}/class", "0x030200")
    tree.write(f"{device}/aer_dev_correctable", "RxErr 12\nBadTLP 0\nTOTAL_ERR_COR 12")
    tree.write(f"{device}/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0")
    inside = ("unshare", "-m", "sh", "-c", f'mount --bind {tmp_path}/sys /sys && exec "$@"', "sh", *shell)
    found = _read(inside, tmp_path)
    counts = {(c.kind, c.place, c.name): c.value for c in found.counts.value or ()}
    assert counts.pop(("host", "memory", "oom_kill")) >= 0
    assert counts == {
        ("ethernet", "ens3f0", "rx_errors"): 7,
        ("ethernet", "ens3f0", "carrier_changes"): 2,
        ("rdma", "mlx5_0:1", "link_downed"): 255,
        ("rdma", "mlx5_0:1", "packet_seq_err"): 3,
        ("memory", "mc0", "ue_count"): 1,
        ("cpu", "CPU", "package_throttle_count"): 3,
        ("pcie", "0000:3b:00.0", "correctable: RxErr"): 12,
        ("pcie", "", "devices"): 0,
    }


def test_without_root_a_kept_back_kernel_log_is_denied_and_not_empty(tmp_path: Path) -> None:
    """dmesg that fails prints nothing, as the log of a machine without any line would."""
    program = tmp_path / "dmesg"
    program.write_text(
        "#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    found = _read(("sh",), tmp_path)
    assert found.log.status is ReadStatus.FAILED and "Operation not permitted" in found.log.detail
