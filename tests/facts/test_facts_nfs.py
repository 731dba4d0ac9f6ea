"""The probe beside mounts that do not answer: a program that hangs on one holds up neither the probe nor its exec."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from listening import wait_until

from clusterctl.facts import gather, probe
from clusterctl.facts.subjects import nfs

MOUNTS = """\
sysfs /sys sysfs rw 0 0
10.0.0.2:/hung /hung nfs4 rw 0 0
10.0.0.1:/good /good nfs4 rw 0 0
10.0.0.1:/two\\040words /mnt/two\\040words nfs rw 0 0
10.0.0.1:/stale /stale nfs4 rw 0 0
10.0.0.1:/krb5 /krb5 nfs4 rw,sec=krb5 0 0
10.0.0.2:/hung2 /hung2 nfs4 rw 0 0
systemd-1 /proc/sys/fs/binfmt_misc autofs rw,direct 0 0
systemd-1 /auto autofs rw,direct 0 0
systemd-1 /auto/broken autofs rw,direct 0 0
/etc/auto.direct /unknown autofs rw,direct 0 0
"""
FSTAB = """\
# 10.0.0.1:/x /unknown nfs defaults 0 0
10.0.0.1:/auto /auto/ nfs x-systemd.automount 0 0
10.0.0.1:/broken /auto/broken nfs4 noauto,x-systemd.automount 0 0"""
# Stands in for a statfs that no server answers: NFS itself needs a kernel with it and a server to lose.
STAT = """\
#!/bin/sh
for last; do :; done
case $last in
/hung*) echo $$ >>"$PIDS"; exec sleep 300;;
/stale) echo "stat: cannot read file system information for '/stale': Stale file handle" >&2; exit 1;;
/krb5) echo "stat: cannot read file system information for '/krb5': Permission denied" >&2; exit 1;;
/good|'/mnt/two words') exit 0;;
/auto) grep -q 'auto nfs4' "$MOUNTS" || echo "10.0.0.1:/auto /auto nfs4 rw,vers=4.1 0 0" >>"$MOUNTS"; exit 0;;
/unknown) echo "10.0.0.1:/unknown /unknown nfs4 rw 0 0" >>"$MOUNTS"; exit 0;;
esac
exit 99
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[dict[str, str], Path]]:
    """An environment, a directory with that stat, and a list of mounts; whatever still hangs is ended."""
    (tmp_path / "mounts").write_text(MOUNTS)
    (tmp_path / "fstab").write_text(FSTAB)
    (tmp_path / "nfsfs").mkdir()
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    stat.chmod(0o755)
    pids = tmp_path / "pids"
    yield {**os.environ, "PIDS": str(pids), "MOUNTS": str(tmp_path / "mounts")}, tmp_path
    for pid in pids.read_text().split() if pids.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)


def test_healthy_stale_and_hung_mounts_are_told_apart_in_time(
    shell: tuple[str, ...], machine: tuple[dict[str, str], Path]
) -> None:
    env, folder = machine
    nonce = secrets.token_hex(16)
    script = probe.build_script(nonce)
    for real in ("/proc/mounts", "/proc/fs/nfsfs", "/etc/fstab"):
        own = folder / real.rpartition("/")[2]
        assert real in script
        script = script.replace(f"done <{real}", f"done <{own}").replace(f"-d {real}", f"-d {own}")
    # By its path, since busybox would take its own.
    script = script.replace("stat -f --", f"{folder / 'stat'} -f --")
    pauses = folder / "pauses"
    assert script.count("sleep 0.05") == 1
    script = script.replace("sleep 0.05", f"echo >>{pauses}; sleep 0.05")
    done = subprocess.run(shell, input=script.encode(), capture_output=True, timeout=120, env=env, check=True)
    answer = probe.split(done.stdout.decode(), nonce)
    facts = gather.facts_from("node", answer.sections, answer.root, gathered_at=0.0, duration_s=0.0)
    states = {health.path: health.state for health in facts.nfs.health}
    assert states == {
        "/good": "ok",
        "/mnt/two words": "ok",
        "/stale": "stale",
        "/krb5": "denied",
        "/hung": "hung",
        "/hung2": "hung",
        "/auto": "ok",
        "/auto/broken": "failed",
    }
    # What fstab says is NFS was mounted by the look at it; of what others would mount nothing is known.
    assert [(mount.source, mount.target, mount.fstype) for mount in facts.nfs.automounts] == [
        ("systemd-1", "/auto", "autofs"),
        ("systemd-1", "/auto/broken", "autofs"),
        ("/etc/auto.direct", "/unknown", "autofs"),
        ("10.0.0.1:/auto", "/auto", "nfs4"),
    ]
    # Both hung ones share the patience.
    assert pauses.read_text().count("\n") == nfs.PATIENCE_S * 20
    hung = (folder / "pids").read_text().split()
    assert len(hung) == 2
    # They were sent a signal and not waited for.
    wait_until(lambda: not any(map(_runs, hung)), "what hangs was left behind", 30)


def _runs(pid: str) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
