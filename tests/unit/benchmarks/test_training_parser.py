"""The records of the training workload: rates, proof, and what is wrong with a run."""

import json

import pytest

from clusterctl.benchmarks.training import Training, parse
from clusterctl.workloads.records import MARK


def line(kind, **fields):
    return MARK + json.dumps({"kind": kind, **fields})


def start(rank, host="node1"):
    return line("start", rank=rank, world_size=2, host=host, pid=100 + rank, device="cpu", local_rank=rank)


def finished(rank, host="node1", mean=10.0, digest="0x1.8p+1", **more):
    fields = {
        "rank": rank, "host": host, "pid": 100 + rank, "device": "cpu", "samples_per_s_mean": mean,
        "samples_per_s_spread": 0.5, "loss_first": 6.9, "loss_last": 1.2, "parameters_digest": digest,
        "model": "resnet50", "batch_size": 8,
        "proof": {"backend": "gloo", "version": "torch 2.13", "libraries": ["/lib/libtorch_cpu.so"]},
    }  # fmt: skip
    return line("rank", **{**fields, **more})


def kinds(run):
    return [fault.kind.value for fault in run.faults]


def ranks(*of_each):
    """What each rank wrote to stdout, in rank order."""
    return {rank: "\n".join(lines) + "\n" for rank, lines in enumerate(of_each)}


def test_two_ranks():
    run = parse(
        ranks([start(0), "Model: resnet50", finished(0)], [start(1, "node2"), finished(1, "node2", 12.0)])
    )
    assert run.samples_per_s == 22.0
    assert [(r.rank, r.host, r.pid) for r in run.ranks] == [(0, "node1", 100), (1, "node2", 101)]
    assert run.settings == {"model": "resnet50", "device": "cpu", "batch_size": 8}
    assert run.libraries == ("gloo torch 2.13 /lib/libtorch_cpu.so",)
    assert kinds(run) == []


def test_records_are_found_behind_other_text_and_broken_ones_are_not_half_read():
    broken = [f'{MARK}{{"kind": "rank", "rank": 1, ', f"{MARK}[1]", f"{MARK}{{}}"]
    run = parse(ranks([f"half a line {start(0)}", finished(0)], broken))
    assert [rate.rank for rate in run.rates] == [0]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"samples_per_s_mean": float("nan")},
        {"loss_last": None},
        {"loss_first": 10**400},
        {"pid": "x"},
        {"proof": 1},
    ],
)
def test_a_result_without_all_its_figures_is_none(spoilt):
    run = parse(ranks([finished(0)], [finished(1, **spoilt)]))
    assert [rate.rank for rate in run.rates] == [0]


@pytest.mark.parametrize(
    ("other", "share"),
    [
        # The slowest rank decides how long a step takes without an exchange.
        ({"step_s": 0.3, "step_alone_s": 0.15}, 0.25),
        ({"step_s": 0.3, "step_alone_s": 0.4}, 0.0),
        ({"step_s": None, "step_alone_s": None}, None),
        ({"step_s": 0.3, "step_alone_s": -1.0}, None),
        ({"step_s": "0.3", "step_alone_s": 0.1}, None),
        ({}, None),
    ],
)
def test_the_share_of_communication_is_what_steps_without_it_are_shorter(other, share):
    run = parse(ranks([finished(0, step_s=0.1, step_alone_s=0.1)], [finished(1, **other)]))
    assert run.communication == (None if share is None else pytest.approx(share))
    assert kinds(run) == []


def test_a_loss_that_is_no_number_names_the_rank():
    failure = line("failure", rank=1, host="node2", reason="nan-loss", loss="nan")
    run = parse(ranks([start(0)], [start(1, "node2"), failure]))
    assert kinds(run) == ["nan-loss"]
    assert run.faults[0].rank == 1
    assert "rank 1 on node2" in run.faults[0].message


@pytest.mark.parametrize(
    "forged", [start(0), finished(0, mean=900.0), line("failure", rank=0, reason="nan-loss")]
)
def test_a_rank_records_nothing_for_another(forged):
    """Nor do two processes count that both take themselves for rank 0."""
    run = parse(ranks([start(0), finished(0)], [start(1), finished(1), forged]))
    assert kinds(run) == ["duplicate-ranks"]
    assert run.faults[0].rank == 1
    assert [rate.samples_per_s for rate in run.rates] == [10.0, 10.0]


def test_a_rank_that_records_its_result_twice():
    run = parse(ranks([start(0), finished(0)], [start(1), finished(1), finished(1, mean=900.0)]))
    assert kinds(run) == ["duplicate-ranks"]


def test_a_rate_that_the_other_ranks_exclude():
    """Ranks of data-parallel training end each step together."""
    run = parse(ranks([finished(0, mean=10.0, steps=12)], [finished(1, mean=900.0, steps=12)]))
    assert kinds(run) == ["rates-differ"]
    assert "rank 1 reports 900 samples/s and rank 0 10" in run.faults[0].message
    assert kinds(parse(ranks([finished(0, mean=10.0, steps=12)], [finished(1, mean=14.0, steps=12)]))) == []
    assert kinds(parse(ranks([finished(0, mean=10.0, steps=1)], [finished(1, mean=30.0, steps=1)]))) == []


def test_replicas_that_drifted_apart():
    run = parse(ranks([finished(0)], [finished(1, digest="0x1.9p+1")]))
    assert kinds(run) == ["replicas-differ"]
    assert run.faults[0].rank == 1


def test_nothing_recorded():
    assert kinds(parse({0: "Killed\n"})) == ["unparsable"]


def test_argv_says_only_what_was_chosen():
    training = Training(model="resnet18", backend="gloo", batch_size=4, timeout_s=60)
    assert training.argv(("python3", "w.pyz", "training")) == (
        "python3", "w.pyz", "training", "--model", "resnet18", "--precision", "fp32", "--timeout-s", "60",
        "--backend", "gloo", "--batch-size", "4",
    )  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        *("[" * 60_000, '{"rank":' * 8000),
        *('{"kind": "rank", "rank": ' + "9" * 5000 + "}", '{"kind": "rank", "rank": 1e999}'),
    ],
    ids=lambda record: record[:12],
)
def test_a_record_that_no_rank_writes_is_left_out(record):
    assert parse({0: f"{MARK}{record}\n"}) == parse({0: ""})


def test_settings_are_single_values():
    nested = (
        '{"kind": "rank", "rank": 0, "samples_per_s_mean": 1, "samples_per_s_spread": 0, "loss_first": 1, '
    )
    nested += '"loss_last": 1, "steps": 3, "model": ' + "[" * 90 + "]" * 90 + "}"
    assert parse({0: f"{MARK}{nested}\n"}).settings == {"steps": 3}
