"""What went wrong, from what mpirun really says, from what was seen on the nodes, and from the ranks' words."""

import random
from dataclasses import replace

import pytest
from hostile_texts import BREAKS, HIDDEN, VARIANTS

from clusterctl.benchmarks.base import FaultKind, RankProof
from clusterctl.launch import notices
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.failure import Outcome, check_library, check_ranks, classify
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.notices import gave_up
from clusterctl.launch.processes import (
    RankProcess,
    end_command_script,
    end_programs_script,
    end_script,
    inspect_script,
    parse_inspection,
)
from clusterctl.transport.base import Failure, FailureKind
from clusterctl.workloads import rank_values

TWO_NODES = LaunchPlan(
    launcher=OpenMpi(),
    token="0123456789abcdef",
    mark="f00d",
    directory="/tmp/clusterctl-0123456789abcdef",
    placements=(
        Placement("gpu01", "ip-10-0-0-1", "10.0.0.1", 22, None, 2),
        Placement("gpu02", "ip-10-0-0-2", "10.0.0.2", 22, None, 2),
    ),
    program=("all_reduce_perf",),
    env=(),
    map_by="slot",
    interfaces=None,
    timeout_s=600,
)
KILLED = """--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun noticed that process rank 3 with PID 0 on node gpu02 exited on signal 9 (Killed).
--------------------------------------------------------------------------"""
STATUS = """--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[30393,1],1]
  Exit code:    4
--------------------------------------------------------------------------"""
DAEMON = """--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[3567,0],0] on node gpu01
  Remote daemon: [[3567,0],1] on node gpu02

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself.
--------------------------------------------------------------------------"""


def outcome(launcher="", returncode=1, **more):
    return Outcome(returncode, {}, more.pop("stderr", {}), launcher, 1.0, **more)


ONLY_A_STATUS = "\n".join(KILLED.splitlines()[:4])
REFUSED = "invalid argument: CCORE_ALGO=ring: expected collective:algorithm, not 'ring'"


def test_the_words_of_a_rank_are_the_cause_if_mpirun_only_reports_that_one_failed():
    """mpirun omits the message that names the rank if all ranks end at the same moment."""
    said = {rank: f"all_reduce_perf: rank {rank} of 4 on vm failed: {REFUSED}\n" for rank in (3, 2, 1)}
    (fault,) = classify(TWO_NODES, outcome(ONLY_A_STATUS, stderr=said))
    assert (fault.kind, fault.rank, fault.node) == (FaultKind.RANK_DIED, 1, "gpu01")
    assert fault.message.endswith(f"all_reduce_perf: rank 1 of 4 on vm failed: {REFUSED}")
    assert fault.hint == "see rank-1.log under logs/ in the run folder"


@pytest.mark.parametrize("stderr", [{}, {1: "\n"}, {7: "not a rank of this launch"}])
def test_without_words_of_a_rank_the_launcher_is_cited(stderr):
    (fault,) = classify(TWO_NODES, outcome(ONLY_A_STATUS, stderr=stderr))
    assert fault.kind is FaultKind.LAUNCHER
    assert "1 process returned a non-zero exit code" in fault.message


def test_a_warning_of_a_rank_does_not_hide_what_the_launcher_reports():
    (fault,) = classify(TWO_NODES, outcome("mpirun: no such file: gpu.txt", stderr={0: "a warning"}))
    assert "no such file: gpu.txt" in fault.message


def test_a_rank_that_was_killed_is_named_with_its_node():
    (fault,) = classify(TWO_NODES, outcome(KILLED))
    assert (fault.kind.value, fault.rank, fault.node) == ("rank-died", 3, "gpu02")
    assert "signal 9" in fault.message


def test_a_rank_that_ended_with_a_status_is_named_with_its_last_words():
    (fault,) = classify(TWO_NODES, outcome(STATUS, stderr={1: "Traceback\nRuntimeError: no GPU\n\n"}))
    assert (fault.kind.value, fault.rank, fault.node) == ("rank-died", 1, "gpu01")
    assert "status 4" in fault.message
    assert fault.message.endswith("RuntimeError: no GPU")


LOST = "all_reduce_perf: rank {} failed: remote error: rank {} (host gpu02, pid 7) died or cannot be reached (closed)"


@pytest.mark.parametrize(
    ("stderr", "rank", "node", "words"),
    [
        (
            {1: LOST.format(1, 3)},
            None,
            None,
            "rank 3 on gpu02 died or cannot be reached, as rank 1 on gpu01 reported",
        ),
        ({1: LOST.format(1, 3), 0: LOST.format(0, 3)}, 3, "gpu02", "as rank 1 on gpu01 reported"),
        (
            {1: LOST.format(1, 3), 3: LOST.format(3, 1)},
            None,
            None,
            "ranks lost their connections to each other",
        ),
        (
            {1: LOST.format(1, 3), 0: LOST.format(0, 2)},
            None,
            None,
            "ranks lost their connections to each other",
        ),
        # Ranks end before they have heard it from rank 0, which alone sees who dies while they meet.
        (
            {0: "remote: rank 3 (from 10.0.0.2) died during initialisation", 1: LOST.format(1, 0)},
            3,
            "gpu02",
            "rank 3 on gpu02 died or cannot be reached, as rank 0 on gpu01 reported",
        ),
        (
            {1: "remote: rank 3 (from 10.0.0.2) died during initialisation"},
            None,
            None,
            "rank 3 on gpu02 died",
        ),
        ({1: LOST.format(1, 9)}, 1, "gpu01", "ended with status 4"),
        ({0: LOST.format(0, 3)}, 1, "gpu01", "ended with status 4"),
    ],
)
def test_a_rank_that_lost_another_one_is_not_blamed_for_it(stderr, rank, node, words):
    (fault,) = classify(TWO_NODES, outcome(STATUS, stderr=stderr))
    assert (fault.kind, fault.rank, fault.node) == (
        FaultKind.RANK_DIED,
        rank,
        node,
    ) and words in fault.message


GLOO = (
    "[rank{}]: Traceback (most recent call last):\n"
    "[rank{}]: RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed "
    "by peer [10.0.0.{}]:65202. This is typically caused by a remote worker crashing. Check the logs of the remote "
    "worker before reporting an error. GLHF!\n"
)
FIVE_NODES = replace(
    TWO_NODES,
    placements=tuple(Placement(f"gpu0{n}", f"vm{n}", f"10.0.0.{n}", 22, None, 1) for n in range(1, 6)),
)


def gloo(rank, peer):
    """What a rank of five nodes prints as its connection to another one is closed."""
    return GLOO.format(rank, rank, peer + 1)


def ccore(rank, peer):
    return LOST.format(rank, peer)


@pytest.mark.parametrize(
    ("stderr", "rank", "words"),
    [
        # Rank 0 ended with status 0; rank 1 noticed it, and the others noticed that rank 1 ended.
        ({1: gloo(1, 0)}, None, "rank 0 on gpu01 died or cannot be reached, as rank 1 on gpu02 reported"),
        (
            {1: gloo(1, 0), 2: gloo(2, 1), 3: gloo(3, 2), 4: gloo(4, 0)},
            None,
            "rank 0 on gpu01 died or cannot be reached, as rank 1 on gpu02 reported",
        ),
        ({1: ccore(1, 0), 2: ccore(2, 1)}, None, "rank 0 on gpu01 died or cannot be reached, as rank 1"),
        # An address is what a rank publishes itself, and two ranks of five may agree on a lie.
        (dict.fromkeys((1, 2, 3, 4), gloo(1, 0)), None, "rank 0 on gpu01 died or cannot be reached"),
        (dict.fromkeys((1, 2), ccore(1, 0)), None, "rank 0 on gpu01 died or cannot be reached"),
        (dict.fromkeys((1, 2, 3), ccore(1, 0)), 0, "rank 0 on gpu01 died or cannot be reached"),
        # In a circle, and at two ends.
        ({1: gloo(1, 2), 2: gloo(2, 1)}, None, "lost their connections to each other: rank 1 on gpu02 to rank 2"),
        ({1: gloo(1, 2), 2: gloo(2, 3), 3: gloo(3, 1)}, None, "ranks lost their connections to each other"),
        ({1: gloo(1, 0), 2: gloo(2, 3)}, None, "ranks lost their connections to each other"),
        # A rank that names no other is a witness, too.
        ({1: "MPI_Allreduce: remote process exited or there was a network error"}, None, "another rank died"),
        ({1: gloo(1, 7)}, None, "another rank died or cannot be reached, as rank 1 on gpu02 reported; its last"),
        (
            {1: "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
             "prematurely.", 3: gloo(3, 4)},
            None,
            "rank 4 on gpu05 died or cannot be reached, as rank 3 on gpu04 reported",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("launcher", [STATUS, STATUS.replace("393],1],1]", "393,1],1]"), ONLY_A_STATUS])
def test_the_rank_at_the_end_of_a_chain_of_closed_connections_is_reported(launcher, stderr, rank, words):
    (fault,) = classify(FIVE_NODES, outcome(launcher, stderr=stderr))
    assert (fault.kind, fault.rank) == (FaultKind.RANK_DIED, rank)
    assert fault.node == (None if rank is None else f"gpu0{rank + 1}")
    assert words in fault.message


def test_an_aborted_rank_is_a_witness_and_one_that_was_killed_is_not():
    """torch aborts a rank whose NCCL reports an error."""
    aborted = KILLED.replace("rank 3", "rank 1").replace("signal 9 (Killed)", "signal 6 (Aborted)")
    (fault,) = classify(FIVE_NODES, outcome(aborted, stderr={1: gloo(1, 0)}))
    assert fault.rank is None and fault.message.startswith("rank 0 on gpu01 died or cannot be reached")
    (fault,) = classify(FIVE_NODES, outcome(KILLED, stderr={3: gloo(3, 0)}))
    assert (fault.rank, fault.node, "signal 9" in fault.message) == (3, "gpu04", True)


def test_of_ranks_that_share_a_node_the_node_is_reported():
    (fault,) = classify(TWO_NODES, outcome(STATUS, stderr={1: GLOO.format(1, 1, 2)}))
    assert fault.node is None
    assert fault.message.startswith("a rank on gpu02 died or cannot be reached, as rank 1 on gpu01 reported")


def test_an_address_that_no_node_has_is_of_no_node():
    named = (replace(FIVE_NODES.placements[n], address=f"gpu0{n + 1}") for n in (1, 2))
    plan = replace(FIVE_NODES, placements=(FIVE_NODES.placements[0], *named))
    (fault,) = classify(plan, outcome(STATUS, stderr={1: GLOO.format(1, 1, 9)}))
    assert fault.message.startswith("another rank died or cannot be reached, as rank 1 on gpu02 reported")


def test_of_two_ranks_the_other_one_is_named():
    two = replace(FIVE_NODES, placements=FIVE_NODES.placements[:2])
    (fault,) = classify(two, outcome(STATUS, stderr={1: "Connection closed by remote peer gpu01<41109>"}))
    assert (fault.rank, fault.node) == (0, "gpu01")


@pytest.mark.parametrize(
    ("text", "rank", "place"),
    [
        (LOST.format(1, 3), 3, None),
        ("remote: rank 2 (host gpu02, pid 4711) destroyed its communicator after operation 12; this", 2, None),
        ("remote: rank 2 destroyed its communicator before operation 12: send(count=8, u8)", 2, None),
        ("CollectiveCoreError: remote: rank 1 (from 10.214.190.2) died during initialisation", 1, None),
        ("CollectiveCoreError: remote: the rendezvous of rank 0 closed the connection", 0, None),
        ("did not end within its timeout of 30.000 s; it waits for data from rank 2 (host b, pid 4)", 2, None),
        ("timeout: no answer at the deadline from rank 2", 2, None),
        ("timeout: still missing at the deadline: ranks 2 and 3", None, None),
        (gloo(1, 2), None, "10.0.0.3"),
        (("[../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [192.168.70.92]:25266: Connection "
         "reset by peer"), None, "192.168.70.92"),
        ("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:575] Connection closed by peer [::1]:39827", None,
         "::1"),
        (("[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
         "operation to complete"), None, None),
        (("[c10d] recvValue failed on SocketImpl(fd=3, addr=[gpu02]:41188, remote=[gpu01]:29500): Failed to recv, "
         "got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"), None, "gpu01"),
        (("DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
         "shutdown or crash?"), None, None),
        ("gpu03:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu04<41109>",
         None, "gpu04"),
        (("dgxh100-4:460770:460869 [0] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from "
         "11.1.128.128<52035> failed : Connection reset by peer"), None, "11.1.128.128"),
        (".. gpu pid 3018: Test NCCL failure common.cu:958 'remote process exited or there was a network error / '",
         None, None),
        ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=112, OpType=ALLREDUCE)", None, None),
        ("MPID_nem_tcp_connpoll(1826): Communication error with rank 1: Connection reset by peer", 1, None),
        (("An MPI communication peer process has unexpectedly disconnected.  This\nusually indicates a failure\n\n"
         "  Local host: gpu01\n  Local PID:  7\n  Peer host:  gpu02\n"), None, "gpu02"),
        # The first loss counts, and one that names its peer.
        (("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, remote process exited or there was a "
         "network error, NCCL version 2.27.5\nLast error:\nsocketProgress: Connection closed by remote peer "
         "gpu04<41109>"), None, "gpu04"),
        (f"{LOST.format(1, 3)}\n{LOST.format(1, 2)}", 3, None),
    ],
)  # fmt: skip
def test_what_ranks_report_about_a_peer_that_they_lost(text, rank, place):
    meeting = "died during initialisation" in text
    assert notices.lost_peer(text) == notices.LostPeer(rank, place, meeting)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RuntimeError: no GPU",
        "ssh: connect to host gpu02: Connection closed by 10.0.0.2 port 22",
        "wget: read error: Connection reset by peer",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "NCCL WARN Cuda failure 999 'unknown error'",
        # A rank that fails itself closes its connections: its threads notice that, and log it.
        (
            "Traceback (most recent call last):\nRuntimeError: no GPU\ngpu03:1:2 [0] misc/socket.cc:49 NCCL WARN "
            "socketProgress: Connection closed by remote peer gpu04<41109>"
        ),
        (
            "Traceback (most recent call last):\nValueError: 3\n[rank1]:[W1129 22:10:00.1 TCPStore.cpp:125] [c10d] "
            "recvValue failed on SocketImpl(fd=3, addr=[gpu02]:41188, remote=[gpu01]:29500): Connection reset by peer"
        ),
    ],
)
def test_other_errors_report_no_lost_peer(text):
    assert notices.lost_peer(text) is None


DESYNC = (
    "collective_core.errors.CollectiveCoreError: desync: ranks called different operations: "
    "rank 0 is in transfer 13 from rank 3 to rank 0 (count=1, u8, tag=0), rank 3 is in operation 25: barrier"
)


def test_a_rank_that_notices_ranks_out_of_step_is_not_at_fault():
    said = f"Traceback\n{DESYNC}\n"
    (fault,) = classify(TWO_NODES, outcome(STATUS, stderr={1: said, 2: said}))
    assert (fault.kind, fault.rank, fault.node) == (FaultKind.RANK_DIED, None, None)
    assert fault.message.startswith("ranks called different operations: rank 0 is in transfer 13 from rank 3")
    assert "as rank 1 on gpu01 reported" in fault.message


def refusal(sender):
    """What a rank writes that refuses the value of another one, as ``workloads/rank_values.py`` words it."""
    return f"vm: {rank_values.refused(sender, 'expected an array' + chr(27))}\n"


@pytest.mark.parametrize("launcher", [STATUS, ONLY_A_STATUS])
@pytest.mark.parametrize(
    ("stderr", "rank", "words"),
    [
        # Most of the other ranks refused a value of rank 3.
        ({0: refusal(3), 1: refusal(3)}, 3, "rank 3 on gpu02 sent a value that 2 of 3 other ranks refused: exp"),
        ({0: refusal(3), 1: refusal(3), 2: refusal(3), 3: refusal(1)}, 3, "3 of 3 other ranks refused"),
        # One rank alone may have made it up.
        ({1: refusal(3)}, None, "rank 1 on gpu01 refused a value of rank 3 on gpu02: expected an array"),
        ({1: refusal(3), 3: refusal(1)}, None, "refused a value of rank"),
    ],
)  # fmt: skip
def test_the_sender_of_a_refused_value_is_at_fault_if_most_ranks_refused_it(launcher, stderr, rank, words):
    (fault,) = classify(TWO_NODES, outcome(launcher, stderr=stderr))
    assert (fault.kind, fault.rank) == (FaultKind.RANK_DIED, rank)
    assert words in fault.message and "\x1b" not in fault.message


@pytest.mark.parametrize(
    "stderr", [{0: refusal(3)}, {1: refusal(9)}, {1: refusal(1)}, {3: refusal(1), 2: refusal(1)}]
)
def test_a_made_up_refusal_hides_no_other_end(stderr):
    """The launcher reports the end of rank 1, which refused nothing."""
    (fault,) = classify(TWO_NODES, outcome(STATUS, stderr=stderr))
    assert (fault.rank, "rank 1 on gpu01 ended with status 4" in fault.message) == (1, True)
    (fault,) = classify(TWO_NODES, outcome(KILLED, stderr={3: refusal(1), 2: refusal(1)}))
    assert fault.rank == 3 and "signal 9" in fault.message


def _claims(victim):
    """What a rank may print to blame another one, in the words of ranks, launchers and libraries."""
    host = f"gpu0{victim // 2 + 1}"
    return (
        *(refusal(victim), refusal(3), LOST.format(3, victim), LOST.format(3, 9), LOST.format(3, 3)),
        *(gloo(3, victim // 2), f"Communication error with rank {victim}: Connection reset by peer"),
        f"Connection closed by remote peer {host}<41109>\nremote process exited or there was a network error",
        *(DESYNC.replace("rank 0", f"rank {victim}"), DESYNC, KILLED, STATUS, DAEMON),
        f"mpirun noticed that process rank {victim} with PID 0 on node {host} exited on signal 9 (Killed).",
        f"srun: error: {host}: task {victim}: Out Of Memory",
        f"local_spawn: rank {victim} (pid 7) on vm exited on signal 9",
        f"hydra_rank: rank {victim} on {host} exited with status 137",
        f"Launch proxy failed\nNode failure on {host}",
        f"Traceback (most recent call last):\nRuntimeError: rank {victim} on {host} is broken",
        f"{host}:1:2 [0] NCCL WARN Cuda failure 999 'unknown error'",
        f"[1,{victim}]<stderr>:{refusal(3)}",
        f"rank {'9' * 20} sent a value",
        *(f"rank {victim}: out of memory", "x" * 70_000, "\x1b[2J", "\u202e", "\ud800", "", "\n" * 1000),
    )


@pytest.mark.parametrize("seed", range(2 * VARIANTS))
def test_no_claim_of_one_rank_names_another_node(seed):
    """Rank 3 ends itself and claims what it likes; of the honest ranks none, some or all lost rank 3 by that."""
    chance = random.Random(seed)
    victim = chance.randrange(3)
    said = "\n".join(chance.choices(_claims(victim), k=chance.randint(1, 3)))
    said = said.replace(" ", chance.choice((" ", " ", *BREAKS, *HIDDEN))) if seed % 4 == 0 else said
    honest = chance.sample(range(3), chance.randint(0, 3))
    lost = chance.choice((LOST.format(0, 3), refusal(3), gloo(0, 1), GLOO.format(0, 0, 9)))
    ended = (
        KILLED
        if chance.random() < 0.3
        else STATUS.replace("393],1],1]", "393],1],3]").replace("393,1],1]", "393,1],3]")
    )
    launcher = chance.choice((ended, ended, ONLY_A_STATUS))
    stderr = {3: said, **dict.fromkeys(honest, lost)}
    (fault,) = classify(TWO_NODES, outcome(launcher, stderr=stderr))
    assert fault.rank in (3, None) and fault.node in ("gpu02", None), (fault, said[:300])
    assert not any(sign in fault.message for sign in (*BREAKS, "\x1b", "\u202e", "\ud800")), fault.message
    assert len(fault.message) < 700
    if launcher == KILLED:
        assert (fault.rank, "signal 9" in fault.message) == (3, True)


def test_the_local_launcher_names_the_rank_too():
    (fault,) = classify(TWO_NODES, outcome("local_spawn: rank 2 (pid 77) on vm exited on signal 11"))
    assert (fault.kind.value, fault.rank) == ("rank-died", 2)
    (fault,) = classify(TWO_NODES, outcome("local_spawn: rank 0 (pid 77) on vm exited with status 3"))
    assert fault.message == "rank 0 on gpu01 ended with status 3 after 1 s"
    # The launcher needs a time of its own to end the other ranks.
    (fault,) = classify(TWO_NODES, outcome("program_rank: rank 0 on vm exited with status 3", failed_s=0.1))
    assert fault.message == "rank 0 on gpu01 ended with status 3 after 0 s"


def test_a_launch_that_was_broken_off_from_here_has_lost_no_node():
    failure = Failure(FailureKind.PROTOCOL, "gpu01: wrote more than 68 MiB", "write less")
    (fault,) = classify(TWO_NODES, outcome(returncode=None, lost_nodes={}, broken_off=failure))
    assert (fault.kind.value, fault.node, fault.message) == (
        "launcher",
        None,
        "gpu01: wrote more than 68 MiB",
    )
    assert fault.hint == "write less"
    # A program of the user is what wrote.
    own = replace(TWO_NODES, foreign=True)
    (fault,) = classify(own, outcome(returncode=None, lost_nodes={}, broken_off=failure))
    assert (
        fault.message == "the ranks wrote too much, or a line without an end: gpu01: wrote more than 68 MiB"
    )
    assert fault.hint != "write less"


def test_a_lost_daemon_names_its_node():
    (fault,) = classify(TWO_NODES, outcome(DAEMON))
    assert (fault.kind.value, fault.node) == ("node-lost", "gpu02")


def test_a_node_that_no_longer_answers_comes_before_what_followed_from_it():
    faults = classify(TWO_NODES, outcome(KILLED, lost_nodes={"gpu02": "timed out"}))
    assert [fault.kind.value for fault in faults] == ["node-lost", "rank-died"]
    assert "gpu02" in faults[0].message
    only = classify(TWO_NODES, outcome(DAEMON, lost_nodes={"gpu02": "timed out"}))
    assert [fault.kind.value for fault in only] == ["node-lost"]


@pytest.mark.parametrize(
    ("seen", "rank", "words"),
    [
        (
            {"gpu01": (RankProcess(5, 0, "running"),), "gpu02": (RankProcess(6, 2, "stopped"),)},
            2,
            "is stopped",
        ),
        (
            {
                "gpu01": tuple(RankProcess(9 + r, r, "running") for r in range(2)),
                "gpu02": (RankProcess(9, 2, "running"),),
            },
            3,
            "has ended while others wait",
        ),
        (
            # gpu02 reports a rank that gpu01 has.
            {
                "gpu01": (RankProcess(5, 1, "running"),),
                "gpu02": (
                    RankProcess(6, 0, "stopped"),
                    RankProcess(7, 2, "running"),
                    RankProcess(8, 3, "running"),
                ),
            },
            0,
            "rank 0 on gpu01 has ended",
        ),
        (
            # gpu02 did not answer.
            {"gpu01": (RankProcess(5, 0, "running"), RankProcess(6, 1, "waiting"))},
            None,
            "did not end within 600 s: rank 0 on gpu01 is running, rank 1 on gpu01 is waiting",
        ),
        ({}, None, "did not end within 600 s"),
    ],
)
def test_a_hang_says_which_rank_stands_still(seen, rank, words):
    (fault,) = classify(TWO_NODES, outcome("", None, deadline_passed=True, ranks_seen=seen))
    assert (fault.kind.value, fault.rank) == ("deadline", rank)
    assert words in fault.message


def test_an_unknown_end_keeps_the_launchers_last_words():
    (fault,) = classify(TWO_NODES, outcome("sh: 1: exec: mpirun: not found", 127))
    assert fault.kind.value == "launcher"
    assert "127" in fault.message
    assert "not found" in fault.message


def test_a_good_end_has_no_fault():
    assert classify(TWO_NODES, outcome("", 0)) == ()


def ranks(*numbers):
    return [RankProof(number, "host", 1, "cpu") for number in numbers]


def test_the_ranks_that_reported_must_be_those_asked_for():
    assert check_ranks(ranks(0, 1, 2), 3) == ()
    (fewer,) = check_ranks(ranks(0, 2), 4)
    assert (fewer.kind.value, fewer.message) == ("fewer-ranks", "2 of 4 ranks reported; missing: 1, 3")
    (double,) = check_ranks(ranks(0, 0, 1), 2)
    assert double.kind.value == "duplicate-ranks"
    (more,) = check_ranks(ranks(0, 1), 1)
    assert more.kind.value == "duplicate-ranks"


@pytest.mark.parametrize(
    ("library", "said", "right"),
    [
        ("nccl", "nccl-tests version 2.19.6 nccl-headers=22803", True),
        ("nccl", "Library nccl 2.28.3 /lib/libnccl.so.2", True),
        ("ccore", "collective_core version 0.1.0 (columns of nccl-tests)", True),
        ("gloo", "Library gloo torch 2.13", True),
        ("ccore", "nccl-tests version 2.19.6 nccl-headers=22803", False),
        ("ccore", "NCCL version 2.28.3+cuda13.0", False),
        ("nccl", "collective_core version 0.1.0 (columns of nccl-tests)", False),
    ],
)
def test_a_program_of_another_library_is_no_measurement_of_this_one(library, said, right):
    """The all_reduce_perf that the inventory names is nccl-tests', say, and --library ccore is asked for."""
    found = check_library(library, ["torch 2.13", said])
    assert [fault.kind.value for fault in found] == ([] if right else ["missing-program"])
    assert right or f"the run measures {library}, but" in found[0].message


def test_processes_of_a_launch_are_read_with_their_state():
    text = "31\t1\tT\tpython\n30\t0\tR\tpython\nnoise\n"
    assert parse_inspection(text) == (RankProcess(31, 1, "stopped"), RankProcess(30, 0, "running"))


def test_the_scripts_never_contain_the_token_itself():
    for script in (
        inspect_script("abcd0123"),
        end_script("abcd0123", 5.0),
        end_command_script("abcd0123", 5.0),
        end_programs_script("abcd0123", 5.0, "rank.sh", 1.0),
    ):
        assert b"abcd0123" not in script


def test_an_abort_is_noticed_while_the_launcher_still_waits_for_a_dead_daemon():
    assert gave_up(KILLED)
    assert gave_up(DAEMON)
    assert not gave_up("Warning: Permanently added 'gpu02'")


@pytest.mark.parametrize(
    ("name", "host", "said"),
    [
        ("gpu02.example.org", "gpu02.example.org", "gpu02.example.org"),
        ("gpu02.example.org", "gpu02.example.org", "gpu02"),
        ("gpu02", "gpu02.example.org", "gpu02.example.org"),
        ("10.0.0.12", "ip-10-0-0-12", "10.0.0.12"),
    ],
)
def test_a_lost_daemons_node_goes_by_its_name_in_the_inventory(name, host, said):
    named = replace(TWO_NODES.placements[1], node=name, host=host)
    plan = replace(TWO_NODES, placements=(TWO_NODES.placements[0], named))
    (fault,) = classify(plan, outcome(DAEMON.replace("gpu02", said)))
    assert (fault.kind.value, fault.node) == ("node-lost", name)
