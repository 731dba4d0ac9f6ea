"""The commands of rows, and what they leave: run here with the real tools, or killed in the middle."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from case_facts import facts_of
from soak import spread

from clusterctl.acceptance.catalog import ROWS
from clusterctl.acceptance.model import NodeProgram, PairProgram, RowPlace
from clusterctl.acceptance.outputs import fio, nccl_tests, stress_ng
from clusterctl.acceptance.rows import cpu, disk, fleet
from clusterctl.acceptance.rows import tools as tool_rows
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.inventory.model import Node


@pytest.fixture
def tools(tier_unavailable):
    for program in ("fio", "stress-ng"):
        if shutil.which(program) is None:
            tier_unavailable(f"{program} is not installed")


def test_rows_have_names_of_their_own_and_every_program_of_a_row_has_a_deadline():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    programs = [row.work for row in ROWS if isinstance(row.work, (NodeProgram, PairProgram))]
    assert all(work.deadline_s > 0 for work in programs)
    assert all(tool.install for work in programs for tool in work.tools)


def test_the_disk_is_measured_and_no_file_is_left(tools, tmp_path):
    done = subprocess.run(
        disk.argv(1, 1), cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    parsed = fio.parse(done.stdout)
    assert {one.field for one in parsed.measurements} == {"write_mb_per_s", "read_mb_per_s", "randread_iops"}
    assert list(tmp_path.iterdir()) == []


def test_a_shared_directory_is_measured_where_the_login_may_write(tools, tmp_path):
    work, shared = tmp_path / "work", tmp_path / "shared"
    work.mkdir()
    shared.mkdir()
    command = disk.argv(1, 1, (str(tmp_path / "absent"), str(shared)))
    room = ("echo header", "echo '/s 200000000 1 100000000 1% /s'")
    (tmp_path / "df").write_text("\n".join(("#!/bin/sh", *room, "")))
    (tmp_path / "df").chmod(0o755)
    done = subprocess.run(
        command, cwd=work, capture_output=True, text=True, timeout=300, check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert len(fio.parse(done.stdout).measurements) == 3
    assert (list(work.iterdir()), list(shared.iterdir())) == ([], [])
    refused = subprocess.run(
        disk.argv(1, 1, (str(tmp_path / "absent"),)), cwd=work, capture_output=True, text=True, check=True
    )
    assert "may not write to" in fio.parse(refused.stdout).not_run


SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix")}  # busybox would run its own mktemp and rm
# What another account does to the name at the moment when the row has just chosen it, or has just removed it.
_SWAPS = {
    "mktemp": 'name=$({real} "$@") && rm -f "$name" && {{ {swapped}; }} 2>/dev/null; echo "$name"',
    "rm": 'for name; do :; done; {real} "$@"; {{ {swapped}; }} 2>/dev/null',
}


# What stands at the name then: VICTIM is root's file, and NAME the name.
_SWAPPED = {
    "a link": 'ln -s {victim} "$name"',
    "a link to a link": 'ln -s {victim} "$name.2"; ln -s "$name.2" "$name"',
    "a relative link": 'ln -s ../victim "$name"',
    "another name of the file": 'ln {victim} "$name" || ln -s {victim} "$name"',
    "a pipe": 'mkfifo "$name"',
    "a directory": 'mkdir "$name"',
    "a link to a directory": 'ln -s ../bin "$name"',
    "a link to a device": 'ln -s /dev/full "$name"',
    "a device": 'mknod "$name" c 1 7',
    "a socket": "python3 -c 'import os, sys; os.mknod(sys.argv[1], 0o140600)' \"$name\"",
    "a link to itself": 'ln -s "$name" "$name"',
    "a file of the account": 'echo theirs >"$name"; chown daemon "$name"',
    "a link and the directory": 'ln -s {victim} "$name"; mv "$PWD" "$PWD.2"; ln -s "$PWD.2" "$PWD"',
}


@pytest.mark.soak
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("program", _SWAPS)
@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
@pytest.mark.parametrize("swapped", spread(list(_SWAPPED), 3))
def test_a_file_that_another_account_swaps_for_a_link_is_not_followed(
    tmp_path, program, exists, shell, swapped
):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    work, victim, bin_ = tmp_path / "work", tmp_path / "victim", tmp_path / "bin"
    work.mkdir()
    bin_.mkdir()
    if exists:
        victim.write_text("root only")
    swap = _SWAPS[program].format(real=shutil.which(program), swapped=_SWAPPED[swapped].format(victim=victim))
    stubs = {
        program: swap,
        "df": "echo header; echo '/s 200000000 1 100000000 1% /s'",
        "fio": 'for word; do case $word in --filename=*) echo written >>"${word#--filename=}" ;; esac; done',
    }
    for name, text in stubs.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    command = disk.argv(1, 1)
    done = subprocess.run(
        (*shell, *command[1:]), cwd=work, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": f"{bin_}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (victim.read_text() if victim.exists() else None) == ("root only" if exists else None), done.stderr
    assert (done.returncode == 0) is (program == "rm"), done.stderr


OWNERS = (0, 1, 2, 65534, 4294967294)
MODES = (
    0o755,
    0o700,
    0o775,
    0o757,
    0o777,
    0o1777,
    0o1775,
    0o2775,
    0o2755,
    0o4777,
    0o6777,
    0o3777,
    0o7777,
    0o1757,
    0o722,
    0o1722,
)


def test_of_all_owners_and_modes_only_a_safe_mount_is_measured(tmp_path, tier_unavailable):
    """80 mounts and links to them: all that are not safe in one command, then each safe one behind one of them."""
    if os.geteuid() != 0:
        tier_unavailable("only root gives directories away")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in {
        "df": "echo header; echo '/s 200000000 1 100000000 1% /s'",
        "fio": "pwd; echo ran",
    }.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    safe, unsafe = [], []
    for owner in OWNERS:
        for mode in MODES:
            mount = tmp_path / f"mount-{owner}-{mode:o}"
            mount.mkdir()
            os.chown(mount, owner, 0)
            mount.chmod(mode)
            is_safe = owner == 0 and (not mode & 0o022 or mode & 0o1000)
            (safe if is_safe else unsafe).append(str(mount))
            link = tmp_path / f"link-{owner}-{mode:o}"
            link.symlink_to(mount)
            if not is_safe:
                unsafe.append(str(link))
    assert len(safe) + len(unsafe) > 100

    def said(mounts):
        done = subprocess.run(
            disk.argv(1, 1, tuple(mounts)), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
            env={"PATH": f"{bin_}:{os.environ['PATH']}"},
        )  # fmt: skip
        return done.stdout.splitlines()[-1]

    assert said(unsafe) == f"clusterctl: no room: another account could replace files in {' '.join(unsafe)}"
    assert [said([unsafe[-1], one]) for one in safe] == ["ran"] * len(safe)
    assert list(tmp_path.glob("mount-*/*")) == []


@pytest.mark.parametrize(
    ("owner", "mode", "measured"),
    [
        (0, 0o755, True),
        (0, 0o1777, True),
        (0, 0o777, False),
        (0, 0o775, False),
        (65534, 0o755, False),
        (65534, 0o1777, False),
    ],
)
def test_a_mount_in_which_another_account_could_swap_files_is_refused(tmp_path, owner, mode, measured):
    shared, bin_ = tmp_path / "shared", tmp_path / "bin"
    shared.mkdir()
    bin_.mkdir()
    os.chown(shared, owner, owner)
    shared.chmod(mode)
    for name, text in {"df": "echo header; echo '/s 200000000 1 100000000 1% /s'", "fio": "echo ran"}.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    done = subprocess.run(
        disk.argv(1, 1, (str(shared),)), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        env={"PATH": f"{bin_}:{os.environ['PATH']}"},
    )  # fmt: skip
    if measured:
        assert done.stdout.splitlines()[-1] == "ran"
    else:
        assert fio.parse(done.stdout).not_run == f"another account could replace files in {shared}"
    assert list(shared.iterdir()) == []


def test_a_killed_fio_leaves_no_file_and_frees_its_space(tools, tmp_path):
    process = subprocess.Popen(
        disk.argv(600, 1),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    try:
        # The file is open and has no name before fio writes to it.
        while not any("(deleted)" in target for target in _open_files(process.pid)):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def _open_files(pid):
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except OSError:
            continue
    return found


def test_a_disk_without_room_is_not_written(tmp_path):
    (tmp_path / "df").write_text("#!/bin/sh\necho header\necho '/dev/vda 1000000 900000 102400 90% /'\n")
    (tmp_path / "df").chmod(0o755)
    (tmp_path / "fio").write_text("#!/bin/sh\nexit 99\n")
    (tmp_path / "fio").chmod(0o755)
    done = subprocess.run(
        disk.argv(1, 1), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert fio.parse(done.stdout).not_run == "100 MiB are free, and the row needs 256 MiB"


def test_stress_ng_verifies_its_results(tools, tmp_path):
    command = cpu.stress_ng_command("--cpu", "1", "--verify", "--timeout", "1")
    done = subprocess.run(command.argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert stress_ng.verified(done.stdout).findings == ()


def test_what_a_launch_lacks_is_named_once_for_equal_nodes_with_what_to_do():
    def lacking(node, what="torch is not installed for /usr/bin/python3"):
        return Fault(
            FaultKind.MISSING_PROGRAM, f"{node}: {what}", node=node, hint="install torch 2.4 or newer there"
        )

    faults = (lacking("gpu01"), lacking("gpu02"), lacking("gpu03", "python3 not found"))
    assert fleet.reason_of(faults) == (
        "gpu[01-02]: torch is not installed for /usr/bin/python3: install torch 2.4 or newer there; "
        "gpu03: python3 not found: install torch 2.4 or newer there"
    )
    assert (
        fleet.reason_of((Fault(FaultKind.LAUNCHER, "mpirun ended with status 1"),))
        == "mpirun ended with status 1"
    )


@pytest.mark.parametrize(
    ("gpus", "groups"),
    [
        (8, None),
        (10, ["0,1,2,3,4,5,6,7", "2,3,4,5,6,7,8,9"]),
        (16, ["0,1,2,3,4,5,6,7", "8,9,10,11,12,13,14,15"]),
        (18, ["0,1,2,3,4,5,6,7", "8,9,10,11,12,13,14,15", "10,11,12,13,14,15,16,17"]),
    ],
)
def test_one_process_measures_eight_gpus_and_groups_of_more_are_measured_in_turn(tmp_path, gpus, groups):
    """With a program that prints a table and its GPUs; the last group is slower."""
    table = (Path(__file__).parent / "cases/nccl_tests/two_gpus.txt").read_text()
    (tmp_path / "table").write_text(table)
    (tmp_path / "all_reduce_perf").write_text(
        '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $*" >>ran\n'
        f'case ",$CUDA_VISIBLE_DEVICES," in *,{gpus - 1},*) exec sed s/360.86/300.5/g table ;; esac\ncat table\n'
    )
    (tmp_path / "all_reduce_perf").chmod(0o755)
    command = tool_rows._all_reduce(
        RowPlace(
            Node(name="a", address="a"),
            facts_of({"gpus": [f"0000:{n:02x}:00.0 NVIDIA_H200" for n in range(gpus)]}),
            "",
        )
    )
    assert command.env == {"NCCL_DEBUG": "WARN"}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        command.argv, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60, check=True
    )
    said = "-b 4G -e 4G -g 8 -n 20 -c 1"
    assert (tmp_path / "ran").read_text().splitlines() == [f"{one} {said}" for one in groups or [""]]
    (measured,) = nccl_tests.parse(done.stdout).measurements
    assert measured.value == (300.5 if groups else 360.86)
