"""What a launch proves: rank's logs joined with the plan's nodes, and variants that choose a slow path on purpose."""

from pathlib import Path

from clusterctl.benchmarks.perf_output import parse
from clusterctl.launch import fast_path as trust
from clusterctl.launch import notices
from clusterctl.launch.failure import Outcome

LOGS = Path(__file__).parents[1] / "trust" / "nccl_logs"


def test_the_logs_of_ranks_are_read_from_both_streams():
    text = (LOGS / "socket-2.28.9-h200x4-as-two-nodes.log").read_text()
    of_rank = ["".join(line for line in text.splitlines(True) if f":{pid}:" in line) for pid in (897, 898)]
    outcome = Outcome(0, {0: of_rank[0]}, {1: of_rank[1]}, "", 1.0)
    log = trust.read(outcome)
    assert [(process.source, process.ranks) for process in log.processes] == [(0, (0,)), (1, (1,))]
    proven = trust.Trust(4, 2, log=log)
    assert (proven.in_network, proven.nvlink_between_nodes) == (False, False)
    sweep = trust.named(parse(""), proven)
    assert sweep.libraries == ("NCCL version 2.28.9+cuda13.0",)
    assert sweep.transports == ("NET/Socket", "P2P/CUMEM")


def test_without_a_log_nothing_is_known():
    proven = trust.Trust(4, 1)
    assert (proven.in_network, proven.nvlink_between_nodes) == (None, None)
    sweep = parse("")
    assert trust.named(sweep, proven) is sweep


def test_nccl_logs_beside_the_results_unless_its_stream_is_a_file():
    assert trust.log_file("openmpi") == "/dev/stderr"
    assert trust.log_file("torchrun") is None


def test_what_nccl_tells_is_not_a_ranks_last_word():
    said = "RuntimeError: no GPU\nvm:1:1 [0] NCCL INFO Abort COMPLETE\n"
    assert notices.last_words(said) == "RuntimeError: no GPU"


def test_a_variant_that_chooses_its_path_may_be_slow():
    assert trust.asked_for((("NCCL_NET_GDR_LEVEL", "0"),))
    assert not trust.asked_for((("NCCL_ALGO", "Ring"),))
