"""The whole probe, run for real: every shell, missing programs, no root, noise, and a GPU node's /sys."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest

from clusterctl.errors import FactsError
from clusterctl.facts import document, probe
from clusterctl.facts.base import ReadStatus
from clusterctl.facts.catalog import FRAGMENTS
from clusterctl.facts.subjects import gpu, gpu_health
from clusterctl.facts.subjects.limits import NCCL_HOME_FILE

Probe = Callable[..., Any]
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def test_this_machine_is_understood_by_every_shell(shell: tuple[str, ...], probe_run: Probe) -> None:
    answer, facts = probe_run(shell)
    assert set(answer.sections) == {"root", *(fragment.name for fragment in FRAGMENTS)}
    assert facts.root.uid == os.geteuid()
    assert facts.system.kernel.value == os.uname().release
    assert facts.system.machine.value == os.uname().machine
    assert facts.system.hostname.value == os.uname().nodename
    assert facts.cpu.topology.value is not None
    assert facts.cpu.topology.value.threads == os.cpu_count()
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    assert facts.limits.memlock.value is not None
    assert (facts.limits.memlock.value.soft, facts.limits.memlock.value.hard) == (soft, hard)
    assert facts.network.interface("lo") is not None
    space = facts.storage.at("/")
    assert space is not None
    assert space.size_bytes == pytest.approx(shutil.disk_usage("/").total, rel=0.01)
    unparsable = [section.name for section in facts.sections if section.status is ReadStatus.UNPARSABLE]
    assert unparsable == []


def test_the_limits_are_those_of_the_session(probe_run: Probe) -> None:
    _, facts = probe_run(("sh", "-c", "ulimit -S -l 64; ulimit -S -n 77; exec sh"))
    assert facts.limits.memlock.value.soft == 64 * 1024
    assert facts.limits.nofile.value.soft == 77


def test_what_nccl_reads_in_the_home_of_the_account(
    shell: tuple[str, ...], probe_run: Probe, tmp_path: Path
) -> None:
    home = tmp_path / "a: home"
    home.mkdir()
    (home / ".nccl.conf").write_text(
        "# NCCL_NET=IB\nNCCL_ALGO=Ring\\n\n  NCCL_NET=IB\nPATH=/x\nNCCL_IB_HCA==mlx5_0"
    )
    _, facts = probe_run(shell, env={**os.environ, "HOME": str(home)})
    found = [line.text for line in facts.host_config if line.path == NCCL_HOME_FILE]
    assert found == ["NCCL_ALGO=Ring\\n", "NCCL_IB_HCA==mlx5_0"]


def test_noise_before_the_probe_is_dropped(shell: tuple[str, ...], probe_run: Probe) -> None:
    quiet, _ = probe_run(shell)
    noisy, _ = probe_run(shell, before="echo 'Welcome!'; printf 'ff begin system -\\n'; echo mail >&2\n")
    assert noisy.sections.keys() == quiet.sections.keys()
    assert noisy.sections["system"].status is ReadStatus.OK


@pytest.mark.parametrize(
    "names", [(), ("grep",), ("grep", "head", "ls", "od", "sh")], ids=["none", "grep", "few"]
)
def test_missing_programs_are_absent_not_errors(
    names: tuple[str, ...], shell: tuple[str, ...], probe_run: Probe, namespaces: None, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    program = shutil.which(shell[0])
    assert program is not None
    # A mount namespace hides the system's own directories, which the probe adds to the PATH.
    hide = f'mount -t tmpfs none /usr/local/sbin && mount --bind {folder} /usr/sbin && exec "$0" "$@"'
    env = {"PATH": str(folder)}
    answer, facts = probe_run(
        (
            str(shutil.which("unshare")),
            "-m",
            "/bin/sh",
            "-c",
            f"PATH=/usr/bin:/bin; {hide}",
            "/usr/bin/env",
            "-i",
            f"PATH={folder}",
            program,
            *shell[1:],
        ),
        env=env,
    )
    # busybox runs its own applets whatever the PATH holds.
    if shell[0] != "busybox":
        assert facts.clock.offset_s is None
        assert answer.sections["clock"].status is ReadStatus.ABSENT
        assert facts.storage.space.status is ReadStatus.ABSENT
        expected = ReadStatus.OK if "grep" in names else ReadStatus.ABSENT
        assert facts.memory.total_bytes.status is expected
    assert facts.gpu.devices.status is ReadStatus.ABSENT
    assert facts.limits.memlock.value is not None
    assert document.from_document(document.to_document(facts)) == facts


def test_without_root_the_ports_registers_are_denied(
    probe_run: Probe, namespaces: None, tmp_path: Path
) -> None:
    fake_sysfs.build(tmp_path / "sys")
    _, facts = probe_run((*_with_sys(tmp_path / "sys"), *AS_NOBODY, "sh"), allow_sudo=False)
    assert facts.root.way == "none"
    assert facts.root.uid == 65534
    port = facts.pci.device("0000:00:01.0")
    assert port.bridge.acs.status is ReadStatus.DENIED
    assert "become: none" in port.bridge.acs.detail
    assert facts.pci.device("0000:03:00.0").path[0] == "0000:00:01.0"


def test_functions_for_the_nvlink_switches_are_told_from_cards(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, tmp_path: Path
) -> None:
    with_sys = _with_sys(tmp_path / "sys")
    fake_sysfs.build(tmp_path / "sys")
    answer, _ = probe_run((*with_sys, *shell))
    assert answer.sections["nvlink_bridges"].status is ReadStatus.ABSENT
    fake_sysfs.add_nvlink_bridges(tmp_path / "sys", functions=3)
    _, facts = probe_run((*with_sys, *shell))
    # All of the card, though only one of its functions says so.
    marked = [device.name for device in facts.rdma.devices.value if device.manages_nvlink]
    assert marked == ["mlx5_10", "mlx5_8", "mlx5_9"]
    assert len(facts.rdma.devices.value) == 5
    answer, unknown = probe_run((*with_sys, *AS_NOBODY, *shell), allow_sudo=False)
    assert answer.sections["nvlink_bridges"].status is ReadStatus.DENIED
    assert not any(device.manages_nvlink for device in unknown.rdma.devices.value)


def test_four_functions_of_infiniband_lead_to_nvlink_switches_for_everybody(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, tmp_path: Path
) -> None:
    fake_sysfs.build(tmp_path / "sys")
    fake_sysfs.add_nvlink_bridges(tmp_path / "sys")
    _, facts = probe_run((*_with_sys(tmp_path / "sys"), *AS_NOBODY, *shell), allow_sudo=False)
    marked = [device.name for device in facts.rdma.devices.value if device.manages_nvlink]
    assert marked == ["mlx5_10", "mlx5_11", "mlx5_8", "mlx5_9"]
    assert len(facts.rdma.devices.value) == 6


def test_the_probe_finds_its_way_to_root_by_sudo(
    probe_run: Probe, namespaces: None, tmp_path: Path, open_folder: Path
) -> None:
    """A sudo that lets in without a password is used for the sections that need it, and only for them."""
    fake_sysfs.build(tmp_path / "sys")
    log = open_folder / "calls"
    sudo = open_folder / "sudo"
    sudo.write_text(
        f'#!/bin/sh\necho "$*" | head -n 1 >>{log}\nwhile [ "$1" != "${{1#-}}" ]; do shift; done\nexec "$@"\n'
    )
    sudo.chmod(0o755)
    log.touch()
    log.chmod(0o666)
    env = {"PATH": f"{open_folder}:{os.environ['PATH']}"}
    _, facts = probe_run((*_with_sys(tmp_path / "sys"), *AS_NOBODY, "sh"), env=env)
    assert facts.root.way == "sudo"
    # This sudo changes no user; the written files are readable, so the registers came through it.
    assert facts.pci.device("0000:00:01.0").bridge.acs.value is not None
    calls = log.read_text().splitlines()
    assert calls[0] == "-n true"
    assert any(call.startswith("-n -- sh -c LC_ALL=C") for call in calls)
    _, plain = probe_run((*_with_sys(tmp_path / "sys"), *AS_NOBODY, "sh"), env=env, allow_sudo=False)
    assert plain.root.way == "none"


def _over_etc(etc: Path) -> tuple[str, ...]:
    """The words before a command that sees a directory instead of /etc."""
    return ("unshare", "-m", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh")


def _kept_to_root(folder: Path, files: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Make an /etc whose files root alone may read; return the words of ``_over_etc``, and where sudo lets in."""
    etc, sudo = folder / "etc", folder / "sudo"
    for name, text in files.items():
        (etc / name).parent.mkdir(parents=True, exist_ok=True)
        (etc / name).write_text(text)
        (etc / name).chmod(0)
        os.chown(etc / name, 65534, 65534)
    kept = " ".join(str(etc / name) for name in files)
    # This sudo changes no user: `nobody` owns the files, and may read them once sudo has accepted it.
    sudo.write_text(
        f'#!/bin/sh\nwhile [ "$1" != "${{1#-}}" ]; do shift; done\nchmod 400 {kept}\n"$@"; e=$?\n'
        f"chmod 0 {kept}\nexit $e\n"
    )
    sudo.chmod(0o755)
    return _over_etc(etc), {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_what_only_root_may_read_of_docker_is_not_taken_for_missing(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, open_folder: Path
) -> None:
    """Sites keep daemon.json to root: taken for an empty one, it would be written without their settings."""
    kept = {
        "docker/daemon.json": '{"data-root": "/data"}\n',
        "cdi/nvidia.yaml": "kind: nvidia.com/gpu\nhostPath: /lib/libcuda.so.580.95.05\n"
        "    - path: /dev/nvidia-uvm\n      major: 510\n    - path: /dev/nvidia0\n      major: 195\n",
    }
    over_etc, env = _kept_to_root(open_folder, kept)
    _, denied = probe_run((*over_etc, *AS_NOBODY, *shell), allow_sudo=False)
    assert denied.docker.daemon_config.status is ReadStatus.DENIED
    assert "become: none" in denied.docker.cdi_unseen
    _, seen = probe_run((*over_etc, *AS_NOBODY, *shell), env=env)
    assert seen.docker.daemon_config.value == '{"data-root": "/data"}'
    assert seen.docker.daemon_mode == 0o400
    assert (seen.docker.cdi_kinds, seen.docker.cdi_unseen) == (("nvidia.com/gpu",), "")
    assert seen.docker.cdi_drivers == (("/etc/cdi/nvidia.yaml", "580.95.05"),)
    assert seen.docker.cdi_majors == (
        ("/etc/cdi/nvidia.yaml", "/dev/nvidia-uvm", 510),
        ("/etc/cdi/nvidia.yaml", "/dev/nvidia0", 195),
    )


def test_a_hook_that_docker_cannot_have_found_is_told(
    probe_run: Probe, namespaces: None, open_folder: Path
) -> None:
    """dockerd looks for it when it starts, which is when it writes its PID file."""
    hook = open_folder / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    env = {"PATH": f"{open_folder}:{os.environ['PATH']}"}

    def found(started: str) -> bool:
        script = f'mount -t tmpfs none /run && touch -d "{started}" /run/docker.pid && exec "$@"'
        _, facts = probe_run(("unshare", "-m", "sh", "-c", script, "sh", "sh"), env=env)
        return bool(facts.docker.hook_came_later)

    assert (found("1 hour ago"), found("1 hour")) == (True, False)


def test_a_chrony_that_answers_root_alone_is_asked_as_root(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, open_folder: Path
) -> None:
    """``cmdport 0``, as hardening guides want it: only root may use the socket that is left."""
    tools = {
        "chronyc": '[ "$CLUSTERCTL_TEST_ROOT" ] || { echo 506 Cannot talk to daemon; exit 1; }\n'
        "echo A9FEA97B,169.254.169.123,4,1795237453.8,0.000001,0,0,-8,0.002,0.1,0.0004,0.0001,16.1,Normal",
        "sudo": 'while [ "$1" != "${1#-}" ]; do shift; done\nCLUSTERCTL_TEST_ROOT=1 exec "$@"',
    }
    for name, body in tools.items():
        (open_folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (open_folder / name).chmod(0o755)
    over_run = (
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs none /run && mkdir /run/chrony && exec "$@"',
        "sh",
    )
    env = {"PATH": f"{open_folder}:{os.environ['PATH']}"}
    _, facts = probe_run((*over_run, *AS_NOBODY, *shell), env=env)
    assert (facts.clock.source, facts.clock.synchronized.value) == ("chrony", True)
    _, refused = probe_run((*over_run, *AS_NOBODY, *shell), env=env, allow_sudo=False)
    assert "506 Cannot talk to daemon" in refused.clock.synchronized.detail


def test_a_configuration_of_chrony_that_is_kept_to_root_is_read_as_root(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, open_folder: Path
) -> None:
    files = {"chrony.conf": "# time\nserver 10.0.0.9 iburst\n", "sysconfig/rdma/cluster": "n1\n"}
    over_etc, env = _kept_to_root(open_folder, files)
    _, denied = probe_run((*over_etc, *AS_NOBODY, *shell), allow_sudo=False)
    assert not _of_chrony(denied)
    kept = next(note for note in denied.sections if note.name == "kept_config")
    assert (kept.status, denied.rdma_files.status) == (ReadStatus.DENIED, ReadStatus.DENIED)
    _, seen = probe_run((*over_etc, *AS_NOBODY, *shell), env=env)
    assert _of_chrony(seen) == [("/etc/chrony.conf", "server 10.0.0.9 iburst")]
    assert [file.path for file in seen.rdma_files.value] == ["/etc/sysconfig/rdma/cluster"]
    # Asked again as root, with a password, nothing is kept from the one who asks.
    for name in files:
        (open_folder / "etc" / name).chmod(0o400)
    answer, again = probe_run((*over_etc, *shell), env={**os.environ, "SUDO_UID": "65534"})
    assert "server 10.0.0.9" in answer.sections["kept_config"].text
    assert _of_chrony(again) == _of_chrony(seen)


def _of_chrony(facts: Any) -> list[tuple[str, str]]:
    return [(line.path, line.text) for line in facts.host_config if "chrony" in line.path]


@pytest.mark.parametrize(
    ("connection", "root_login"),
    [
        ("10.9.9.9 50000 10.0.0.2 22", "without-password"),
        ("10.9.9.9 50000 192.168.0.2 2222", "no"),
        ("fd00::9 50000 fd00::2 22", "without-password"),
        ("", "no"),
        ("10.9.9.9 50000 $(reboot) 22", "no"),
    ],
)
def test_the_server_is_asked_about_logins_from_where_the_other_nodes_are(
    connection: str,
    root_login: str,
    shell: tuple[str, ...],
    probe_run: Probe,
    namespaces: None,
    open_folder: Path,
) -> None:
    """A real sshd whose settings hang on addresses and ports: 127.0.0.1 would get another answer."""
    etc = open_folder / "etc"
    (etc / "clusterctl" / "ssh").mkdir(parents=True)
    (etc / "ssh").mkdir()
    (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")
    subprocess.run(
        ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", etc / "ssh" / "ssh_host_ed25519_key"),
        check=True,
    )
    (etc / "ssh" / "sshd_config").write_text(
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin no\n"
        "Match Address 10.0.0.0/8,fd00::/8 LocalPort 22\n  PermitRootLogin prohibit-password\n"
    )
    over = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"'
    over_etc = ("unshare", "-m", "sh", "-c", f"mount --bind {etc} /etc && {over}", "sh")
    _, facts = probe_run((*over_etc, *shell), env={**os.environ, "SSH_CONNECTION": connection})
    assert facts.ssh_mesh.setting("permitrootlogin") == root_login, facts.ssh_mesh.sshd


@pytest.mark.parametrize(
    ("members", "others", "is_debian", "own_group"),
    [
        ("", "", True, 1500),
        ("alice", "", True, 1500),
        ("alice,bob", "", True, None),
        ("bob", "", True, None),
        ("", "bob:x:1001:1500::/home/bob:/bin/sh\n", True, None),
        ("", "", False, None),
    ],
)
def test_a_group_of_the_account_alone_is_seen_where_sshd_lets_it_write(
    members: str,
    others: str,
    is_debian: bool,
    own_group: int | None,
    probe_run: Probe,
    namespaces: None,
    open_folder: Path,
) -> None:
    etc = open_folder / "etc"
    (etc / "clusterctl" / "ssh").mkdir(parents=True)
    (etc / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nalice:x:65534:1500::/tmp:/bin/sh\n{others}")
    (etc / "group").write_text(f"root:x:0:\nalice:x:1500:{members}\nusers:x:100:alice,bob\n")
    if is_debian:
        (etc / "debian_version").write_text("12.10\n")
    _, facts = probe_run((*_over_etc(etc), *AS_NOBODY, "sh"), allow_sudo=False)
    assert facts.ssh_mesh.login.value.user == "alice"
    assert facts.ssh_mesh.modes[0].path == "/tmp"
    assert facts.ssh_mesh.own_group == own_group


def test_a_gpu_nodes_tree_is_read(
    shell: tuple[str, ...], probe_run: Probe, namespaces: None, tmp_path: Path
) -> None:
    fake_sysfs.build(tmp_path / "sys")
    _, facts = probe_run((*_with_sys(tmp_path / "sys"), *shell))
    kinds = {d.address: d.bridge.kind for d in facts.pci.devices.value if d.bridge is not None}
    assert kinds == {
        "0000:00:01.0": "root-port",
        "0000:00:1e.0": "pci",
        "0000:01:00.0": "upstream-port",
        "0000:02:08.0": "downstream-port",
        "0000:02:09.0": "downstream-port",
    }
    root = facts.pci.device("0000:00:01.0").bridge.acs.value
    assert (root.offset, root.capability, root.control) == (0x148, 0x1D, 0x1D)
    assert root.enabled == (
        "source-validation",
        "request-redirect",
        "completion-redirect",
        "upstream-forwarding",
    )
    switch = facts.pci.device("0000:02:08.0").bridge.acs.value
    assert (switch.offset, switch.capability, switch.control) == (0xF24, 0x207F, 0x5D)
    assert facts.pci.device("0000:02:09.0").bridge.acs.value.control == 0
    assert facts.pci.device("0000:01:00.0").bridge.acs.status is ReadStatus.ABSENT
    gpu = facts.pci.device("0000:03:00.0")
    assert gpu.path == ("0000:00:01.0", "0000:01:00.0", "0000:02:08.0", "0000:03:00.0")
    assert (gpu.driver, gpu.link.speed_gtps, gpu.link.max_speed_gtps, gpu.link.width) == (
        "nvidia",
        16.0,
        32.0,
        16,
    )
    assert facts.pci.nvidia_gpus == (gpu,)

    mlx, rxe = facts.rdma.devices.value
    assert (mlx.name, mlx.pci_address, mlx.netdevs, mlx.numa_node) == (
        "mlx5_0",
        "0000:04:00.0",
        ("ens1np0",),
        0,
    )
    port = mlx.ports[0]
    assert (port.state, port.phys_state, port.rate_gbps, port.link_layer) == (
        "ACTIVE",
        "LinkUp",
        400.0,
        "Ethernet",
    )
    assert [(gid.index, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "IB/RoCE v1", "ens1np0"),
        (1, "RoCE v2", "ens1np0"),
        (2, "IB/RoCE v1", "ens1np0"),
        (3, "RoCE v2", "ens1np0"),
    ]
    assert port.counters == (("link_downed", 2), ("out_of_sequence", 11))
    assert (rxe.is_virtual, rxe.netdevs, rxe.ports[0].state) == (True, ("ens1np0",), "DOWN")
    interface = facts.network.interface("ens1np0")
    assert (interface.speed_mbps, interface.driver, interface.pci_address) == (
        400000,
        "mlx5_core",
        "0000:04:00.0",
    )
    assert facts.gpudirect.nv_peer_mem_version.value == "1.3"
    assert facts.gpudirect.nvidia_peermem_version.value == "580.159.04"
    assert facts.gpudirect.ofed_version.value == "24.10-1.1.4"
    assert document.from_document(document.to_document(facts)) == facts


HANGS = '[ ! -e "${0%/*}/over" ] || exit 0; echo $$ >>"${0%/*}/pids"; exec sleep 300'


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (HANGS, ReadStatus.FAILED, "no answer before the deadline"),
        (
            "echo NVML: Driver/library version mismatch; exit 18",
            ReadStatus.FAILED,
            "exit status 18: NVML: Driver",
        ),
        ("echo broken >&2; exit 3", ReadStatus.FAILED, "exit status 3: broken"),
        ("exit 0", ReadStatus.EMPTY, ""),
        ("echo what is this", ReadStatus.UNPARSABLE, "what is this"),
        ("while echo 0123456789012345678901234567890123456789; do :; done", ReadStatus.UNPARSABLE, "was cut"),
    ],
    ids=["hangs", "mismatch", "stderr", "silent", "nonsense", "endless"],
)
def test_an_ill_nvidia_smi_costs_only_its_own_facts(
    body: str, status: ReadStatus, words: str, shell: tuple[str, ...], probe_run: Probe, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # Only what hangs is not waited for: a busy machine may take a second to start a program that answers at once.
    hurried = [(f"t {gpu.DEADLINE_S} ", "t 1 "), (f"t {gpu_health.DEADLINE_S + 2} ", "t 1 ")]
    # That of the health is left behind: it outlasts the fixture's limit, and must not hold the probe back.
    left_behind = [(f"t {gpu_health.DEADLINE_S} ", "t 250 ")]
    try:
        answer, facts = probe_run(shell, env=env, replacing=[*hurried, *left_behind] if body == HANGS else [])
    finally:
        (tmp_path / "over").touch()
        pids = tmp_path / "pids"
        for pid in pids.read_text().split() if pids.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert facts.gpu.devices.status is status
    assert words in facts.gpu.devices.detail
    assert len(answer.sections["gpu_query"].text) <= 256 * 1024
    assert facts.limits.memlock.value is not None
    assert facts.network.interface("lo") is not None


def test_the_probe_leaves_no_file_and_needs_its_end(tmp_path: Path) -> None:
    script = probe.build_script("a" * 32)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    cut = subprocess.run(
        ("sh",),
        input=script[: len(script) // 2].encode(),
        capture_output=True,
        timeout=60,
        env=env,
        check=False,
    )
    assert cut.stdout == b""
    with pytest.raises(FactsError, match="did not run to its end"):
        probe.split(cut.stdout.decode(), "a" * 32)
    subprocess.run(("sh",), input=script.encode(), capture_output=True, timeout=60, env=env, check=True)
    assert list(tmp_path.iterdir()) == []


def test_the_probe_starts_few_processes(tmp_path: Path, tier_unavailable: Callable[[str], None]) -> None:
    """Many nodes of one machine (a lab, a test) run it at the same moment: forks are what it costs."""
    strace = shutil.which("strace")
    if strace is None:
        tier_unavailable("strace is not installed")
        return
    log = tmp_path / "calls"
    subprocess.run(
        (strace, "-f", "-o", str(log), "-e", "trace=fork,vfork,clone,clone3", "dash"),
        input=probe.build_script("b" * 32).encode(),
        capture_output=True,
        timeout=120,
        check=True,
        # A python3 that is a script, such as pyenv's, starts dozens.
        env={**os.environ, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    forks = [line for line in log.read_text().splitlines() if "CLONE_THREAD" not in line and "= " in line]
    assert 8 < len(forks) <= 40, f"{len(forks)} forks"


def _with_sys(tree: Path) -> tuple[str, ...]:
    return ("unshare", "-m", "sh", "-c", f'mount --bind {tree} /sys && exec "$@"', "sh")


def test_the_way_out_of_a_node_without_ipv4_is_seen(
    shell: tuple[str, ...], probe_run: Probe, tier_unavailable: Callable[[str], None]
) -> None:
    links = "ip link add eth0 type veth peer name eth1 && ip link set lo up && ip link set eth0 up"
    routes = "ip -6 route add default dev eth0 metric 7"
    alone = ("unshare", "-n", "sh", "-c", f'{links} && {routes} && exec "$@"', "sh")
    made = subprocess.run((*alone, "true"), capture_output=True, text=True, timeout=20, check=False)
    if made.returncode:
        tier_unavailable(f"no links in a network namespace: {made.stderr.strip()}")
    _, facts = probe_run((*alone, *shell))
    assert facts.network.default_route.value == "eth0"
