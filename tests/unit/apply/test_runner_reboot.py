"""Who is found at work before a reboot: people's processes, whatever directory their numbers come from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import Reboot

STATUS = (
    "Name:\t{name}\nUmask:\t0022\nPid:\t{pid}\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t0\t0\t0\t0\n"
)


@pytest.fixture
def reboot(runner, tmp_path):
    """Ask for a reboot on a node whose processes are (pid, name, uid) or, without a status, pid alone."""

    def ask(*processes, **header):
        for process in processes:
            folder = tmp_path / f"proc/{process[0]}"
            folder.mkdir(parents=True)
            if len(process) == 1:  # listed, and gone by the time it is read
                (folder / "status").symlink_to("gone")
            else:
                pid, name, uid = process
                (folder / "status").write_text(STATUS.format(pid=pid, name=name, uid=uid))
        quiet = dict.fromkeys(("docker", "nvidia_smi", "squeue", "who", "shutdown", "reboot"), "exit 0\n")
        told = tmp_path / "told"
        env = runner.stand_ins(**quiet, systemctl=f'[ "$1" != reboot ] || touch {told}\n')
        head = replace(runner.header("r"), **header)
        text = script.apply_script(head, NodePlan("n", (PlannedStep("t", Reboot("boot")),)))
        assert text.count("/proc/[0-9]*/status") == 1
        ran = runner.run_text(text.replace("/proc/[0-9]*/status", f"{tmp_path}/proc/[0-9]*/status"), env)
        return ran, told.exists()

    return ask


def test_a_process_that_ends_while_it_is_looked_at_hides_no_other(reboot):
    # mawk, Debian's awk, stops at the first file that it cannot open.
    ran, booted = reboot((100,), (200, "first", 1000), (300,), (400, "last", 1001), (500,))
    assert "first (process 200) of uid 1000" in ran.detail("failed")
    assert "last (process 400) of uid 1001" in ran.detail("failed")
    assert not booted


@pytest.mark.parametrize("uid", [1000, 59999, 60000, 61183, 65520, 65533, 65535, 70001, 1926400500])
def test_a_person_of_a_directory_service_is_a_person(reboot, uid):
    ran, booted = reboot((200, "python3", uid))
    assert f"python3 (process 200) of uid {uid}" in ran.detail("failed")
    assert not booted


def test_services_and_nobody_are_no_people(reboot):
    processes = [(200 + uid, "service", uid) for uid in (0, 1, 999, 61184, 63000, 65519, 65534)]
    ran, booted = reboot(*processes, (999999, "sshd", 1000))
    assert ran.events(1)[-1] == (1, "rebooting"), ran.records
    assert booted


def test_a_node_that_forgets_the_run_in_its_boot_is_not_booted_again(reboot):
    ran, booted = reboot((999999, "sshd", 1000), booted_from="the boot before")
    assert ran.events(1) == [(1, "failed")]
    assert "its journal below" in ran.detail("failed") and "in that image" in ran.detail("failed")
    assert not booted
