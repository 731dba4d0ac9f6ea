"""Several collectives, types and operators on one command line: a sweep for each combination."""

from types import SimpleNamespace

import pytest
from bench_requests import bench_requests

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.cli.bench import run, sweeps
from clusterctl.errors import UsageError


def kinds(**options):
    return [
        (one.collective, one.sweep.get("datatype"), one.sweep.get("op")) for one in bench_requests(**options)
    ]


def test_each_combination_is_a_sweep_and_only_reductions_have_operators():
    assert kinds() == [("all_reduce", None, None)]
    assert kinds(collective="all_reduce,all_gather", datatype="float,half", op="sum,max") == [
        ("all_reduce", "float", "sum"),
        ("all_reduce", "float", "max"),
        ("all_reduce", "half", "sum"),
        ("all_reduce", "half", "max"),
        ("all_gather", "float", None),
        ("all_gather", "half", None),
    ]
    assert len(kinds(collective="all")) == 10
    assert kinds(op="all, max") == [("all_reduce", None, op) for op in ("sum", "prod", "max", "min")]
    assert len(kinds(datatype="all")) == 8


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"collective": "allreduc"},
            "unknown collective 'allreduc'",
            "did you mean all_reduce",
        ),
        (
            {"collective": "AllGathr"},
            "unknown collective 'AllGathr'",
            "did you mean all_gather",
        ),
        ({"collective": "all_reduce,"}, "unknown collective ''", "choose from"),
        ({"datatype": "floats"}, "unknown type 'floats'", "did you mean float"),
        ({"op": "xor"}, "unknown operator 'xor'", "choose from"),
        (
            {"collective": "all_gather", "op": "max"},
            "--op has no effect on all_gather",
            "leave it out; these",
        ),
        ({"model": "resnet50", "datatype": "half"}, "--datatype requires --collective", "add --collective"),
    ],
)
def test_mistakes_are_explained(options, message, hint):
    with pytest.raises(UsageError) as refused:
        bench_requests(**options)
    assert message in refused.value.message
    assert refused.value.hint.startswith(hint)


def test_the_sweep_that_fails_is_the_last_one(capsys, monkeypatch):
    fault = Fault(FaultKind.RANK_DIED, "rank 1 died")
    shown = []

    def measure(_experiment, request, say):
        say("note: slow")
        return SimpleNamespace(faults=(fault,) if request == 2 else (), request=request)

    monkeypatch.setattr(run, "measure", measure)
    ended = sweeps.run(None, [1, 2, 3, 4], shown.append)
    assert [one.request for one in ended] == [1, 2]
    assert shown == list(ended)
    assert capsys.readouterr().err.splitlines() == [
        "note: slow",
        "note: 2 more sweeps were not measured after this failure",
    ]
