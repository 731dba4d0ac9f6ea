"""Deaths and losses in what launchers really say."""

import pytest

from clusterctl.launch import notices
from clusterctl.launch.notices import RankDeath

# Open MPI 5.0.11.
SIGNAL_5 = """--------------------------------------------------------------------------
prterun noticed that process rank 2 with PID 2744 on node gpu02 exited on
signal 9 (Killed).
--------------------------------------------------------------------------"""
STATUS_5 = """--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-gpu01-2805@1,3]
   Exit code:    3
--------------------------------------------------------------------------"""
DAEMON_5 = """--------------------------------------------------------------------------
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-gpu01-4526@0,0] on node gpu01
  Remote daemon: [prterun-gpu01-4526@0,2] on node gpu03

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------"""
NO_DAEMON_5 = """------------------------------------------------------------
A daemon failed to report back after being spawned. This could
be due to several factors, including inability to find the
daemon executable, or the executable was unable to find its
required supporting libraries. In some cases, the daemon was
able to execute, but was unable to complete a TCP connection
back to prterun:

  Local host:    gpu01
  Remote host:   gpu02
  Daemon exit status: 255
------------------------------------------------------------"""


@pytest.mark.parametrize(
    ("text", "death"),
    [
        (SIGNAL_5, RankDeath(2, signal=9)),
        (STATUS_5, RankDeath(3, status=3)),
        (f"{STATUS_5}\n{SIGNAL_5}", RankDeath(2, signal=9)),
        (DAEMON_5, None),
        ("", None),
        # The cause, and the tasks that srun ends because of it.
        (
            "srun: error: gpu02: task 3: Out Of Memory\nsrun: error: gpu01: tasks 0-1: Killed",
            RankDeath(3, signal=9),
        ),
        ("srun: error: gpu01: task 1: Segmentation fault (core dumped)", RankDeath(1, signal=11)),
    ],
)
def test_the_rank_that_fell_is_read(text, death):
    assert notices.rank_death(text) == death


@pytest.mark.parametrize(("text", "node"), [(DAEMON_5, "gpu03"), (NO_DAEMON_5, "gpu02")])
def test_a_lost_daemon_is_read_with_its_node(text, node):
    assert notices.lost_daemon(text)
    assert notices.gave_up(text)
    assert notices.daemon_node(text) == node


def test_last_words_are_no_rules():
    assert notices.last_words("mpirun: nothing to run\n-------\n=====\n\n") == "mpirun: nothing to run"
    assert notices.last_words("---") == ""


def test_last_words_of_a_traceback_are_its_exception():
    said = (
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    raise error\n'
        "[rank1]: torch._inductor.exc.InductorError: PermissionError: [Errno 13] Permission denied: '/tmp/x'\n\n"
        "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you report a bug)\n"
    )
    assert notices.last_words(said).startswith("[rank1]: torch._inductor.exc.InductorError: PermissionError")


def test_last_words_that_are_framed_are_told_from_their_beginning():
    rule = "-" * 74
    said = (
        "starting\n"
        f"{rule}\nsomething earlier\n{rule}\n"
        f"{rule}\nmpirun was unable to launch the specified application as it could not access\n"
        "or execute an executable:\n\nExecutable: /opt/venv/bin/python\nNode: gpu02\n\n"
        f"while attempting to start process rank 0.\n{rule}\n"
    )
    assert notices.last_words(said).startswith("mpirun was unable to launch the specified application")
    assert "Executable: /opt/venv/bin/python Node: gpu02" in notices.last_words(said)
    assert notices.last_words(said + "and then this\n") == "and then this"


# MPICH 5.0.2, with what our script says in the rank's place.
HYDRA = """hydra_rank: rank 3 on gpu02 exited with status 137
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 29339 RUNNING AT gpu02
=   EXIT CODE: 9
==================================================================================="""


def test_a_status_above_128_from_a_shell_is_a_signal():
    assert notices.rank_death(HYDRA) == RankDeath(3, signal=9)
    assert notices.gave_up(HYDRA)
    several = "hydra_rank: rank 0 on a exited with status 1\nhydra_rank: rank 1 on b exited with status 139"
    assert notices.rank_death(several) == RankDeath(1, signal=11)


def test_torchruns_agents_are_read():
    assert notices.rank_death("agents: rank 2 on gpu02 exited on signal 9") == RankDeath(2, signal=9)
    assert notices.rank_death("agents: rank 2 on gpu02 exited with status 3") == RankDeath(2, status=3)


# Slurm 22.05.8.
SRUN_KILLED = """srun: error: node02: task 1: Killed
srun: launch/slurm: _step_signal: Terminating StepId=2.0
srun: error: node02: task 2: Terminated
srun: error: node01: task 0: Terminated
srun: Force Terminated StepId=2.0"""
SRUN_STATUS = """srun: error: node02: task 2: Exited with exit code 4
srun: launch/slurm: _step_signal: Terminating StepId=3.0
srun: error: node01: task 0: Exited with exit code 143
srun: error: node02: task 1: Terminated
srun: Force Terminated StepId=3.0"""
SRUN_LOST = "srun: error: Node failure on gpu02\nsrun: Job step aborted: Waiting up to 32 seconds."


def test_sruns_words_are_read():
    assert notices.rank_death(SRUN_KILLED) == RankDeath(1, signal=9)
    assert notices.rank_death(SRUN_STATUS) == RankDeath(2, status=4)
    assert notices.rank_death(SRUN_LOST) is None
    assert notices.daemon_node(SRUN_LOST) == "gpu02"
    assert notices.gave_up(SRUN_KILLED)
