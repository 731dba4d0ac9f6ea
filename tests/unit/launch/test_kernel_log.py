"""Which lines of a node's kernel log prove why a launch failed, and the process ids of ranks that it needs for that."""

from types import SimpleNamespace

import pytest

from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.health import Boot, Health, KernelEvent, KernelLog
from clusterctl.launch import kernel_log
from clusterctl.launch.failure import Outcome
from clusterctl.transport.base import Failure, FailureKind

BOOT = "6d0cb0b3-7f5b-4c37-9a3e-52f1c9a4d2aa"
KILLED = "Out of memory: Killed process 2334 (python3) total-vm:346800kB, anon-rss:48896kB"
IN_GROUP = "Memory cgroup out of memory: Killed process 2334 (python3) total-vm:346800kB"
OOM = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,task_memcg=/job,task=python3,pid=2334,uid=0"
OFF_THE_BUS = "NVRM: Xid (PCI:0000:2b:00): 79, pid=1896, GPU has fallen off the bus."
MMU_FAULT = "NVRM: Xid (PCI:0000:06:00): 31, pid=2334, name=python3, Ch 00000008, intr 00000000. MMU Fault"
HUNG = "INFO: task python3:2334 blocked for more than 120 seconds."
CORRECTED = "pcieport 0000:20:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer"


def reading(*lines, last_s=100.0, boot=BOOT, status=ReadStatus.OK):
    events = tuple(KernelEvent(at, text) for at, text in lines)
    log = KernelLog(1.0, last_s, events) if status is ReadStatus.OK else None
    return Health(boot=Reading(Boot(boot, last_s)), log=Reading(log, status))


def proving(*texts, ids=(), program="/opt/env/bin/python3", before=None, at_s=101.5):
    after = reading(*((at_s, text) for text in texts), last_s=102.0)
    return list(kernel_log.proving("gpu03", before or reading(), after, ids, program))


@pytest.mark.parametrize("text", [KILLED, IN_GROUP, OOM, MMU_FAULT, HUNG])
def test_a_line_with_the_id_of_a_rank_proves_and_one_with_another_id_does_not(text):
    assert proving(text, ids={17, 2334}) == [f"[  101.500000] gpu03 kernel: {text}"]
    assert proving(text, ids={17}) == []
    assert proving(text, ids={233, 23340}) == []


@pytest.mark.parametrize("text", [KILLED, IN_GROUP, OOM])
def test_without_a_known_id_the_name_of_the_program_proves(text):
    assert len(proving(text)) == 1
    assert len(proving(text.replace("python3", "pt_main_thread"))) == 1
    assert proving(text.replace("python3", "chronyd")) == []
    long = "all_reduce_perf_with_more"
    assert len(proving(text.replace("python3", long[:15]), program=f"/opt/{long}")) == 1


def test_a_killed_daemon_of_mpirun_proves_although_the_ids_of_its_ranks_are_known():
    assert len(proving(KILLED.replace("python3", "orted"), ids={17})) == 1


def test_failed_hardware_proves_whatever_process_noticed_it_and_corrected_errors_do_not():
    assert len(proving(OFF_THE_BUS, ids={17})) == 1
    assert proving(CORRECTED, ids={17}) == []


def test_lines_before_the_launch_or_of_another_boot_prove_nothing():
    old = reading((99.0, OFF_THE_BUS))
    after = reading((99.0, OFF_THE_BUS), last_s=102.0)
    assert list(kernel_log.proving("gpu03", old, after, (), "x")) == []
    assert proving(OFF_THE_BUS, before=reading(boot="00000000-7f5b-4c37-9a3e-52f1c9a4d2aa")) == []
    assert proving(OFF_THE_BUS, before=reading(status=ReadStatus.FAILED)) == []


def test_a_file_is_written_only_for_nodes_with_such_lines(tmp_path):
    gone = Failure(FailureKind.UNREACHABLE, "no route to host")
    after = reading((101.5, KILLED), last_s=102.0)
    nodes = ("gpu01", "gpu02", "gpu03", "gpu04")
    before = dict.fromkeys(nodes, reading())
    found = {"gpu01": reading(last_s=102.0), "gpu02": gone, "gpu03": after}
    kernel_log.write(tmp_path / "logs", nodes, before, found, {"gpu03": {2334}}, "python3")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["kernel-gpu03.log"]
    (file,) = (tmp_path / "logs").iterdir()
    assert file.read_text() == f"[  101.500000] gpu03 kernel: {KILLED}\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_ranks_and_launchers_report_process_ids():
    plan = SimpleNamespace(node_of_rank=("gpu01", "gpu02", "gpu02"))
    outcome = Outcome(
        returncode=1,
        stdout_by_rank={
            0: "#  Rank  0 Group  0 Pid     11 on      gpu01 device  0\n"
            "#  Rank  1 Group  0 Pid     21 on      gpu02 device  0\n",
            2: '@@ {"kind": "start", "rank": 2, "pid": 31}\n',
            9: '@@ {"kind": "start", "rank": 9, "pid": 91}\n',
        },
        stderr_by_rank={
            2: "RuntimeError: DataLoader worker (pid 44) is killed by signal: Killed.\n"
            "RuntimeError: DataLoader worker (pid(s) 45) exited unexpectedly\n"
        },
        launcher="mpirun noticed that process rank 1 with PID 0 on node gpu02 exited on signal 9 (Killed).\n"
        "hydra_rank: rank 1 (pid 22) on gpu02 exited with status 137\n"
        "prterun noticed that process rank 7 with PID 71 on node gpu09 exited on signal 9 (Killed).\n",
        duration_s=1.0,
    )
    assert kernel_log.pids(plan, outcome) == {"gpu01": {11}, "gpu02": {21, 22, 31, 44, 45}}
