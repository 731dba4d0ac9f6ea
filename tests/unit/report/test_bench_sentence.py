"""The first line of a benchmark: the verdict, the figure that decides it, and what to do next."""

from __future__ import annotations

from typing import Any

import bench_documents as documents
import bench_views
import pytest

from clusterctl.benchmarks.training import Training
from clusterctl.cli.bench import trust
from clusterctl.documents.bench import BenchResult
from clusterctl.documents.evidence import Fault
from clusterctl.documents.kinds import FaultKind
from clusterctl.errors import UsageError
from clusterctl.launch.request import Request
from clusterctl.report.text.failures import fault_lines
from clusterctl.results.record import from_document
from clusterctl.views import bench
from clusterctl.workloads.shared_gpu import TIME_SLICES

RUN = "20261124T120000Z-bench-0001"
RANKS = [{"rank": 0, "host": "n1", "pid": 1, "device": "cpu"}]
EXPECTED = {
    "reason": "x", "formula": "f", "expected_busbw_gbps": 367.0, "limit_busbw_gbps": 450.0, "size_bytes": 1 << 30,
    "busbw_gbps": 329.0,
}  # fmt: skip


def rows(*words: tuple[str | None, float, int | None]) -> list[dict[str, Any]]:
    """Return a size for each word, with its ratio and the repeats that decide it."""
    return [
        documents.row(
            1024 << at, (9.0, 10.0, 11.0), (1.0, 1.0, 1.0), word=word, ratio=ratio, repeats_needed=needed
        )
        for at, (word, ratio, needed) in enumerate(words)
    ]


def compared(*words: tuple[str | None, float, int | None]) -> dict[str, Any]:
    first = documents.variant("nccl", rows=rows(*((None, 1.0, None) for _ in words)), repeats=3)
    return documents.document(RUN, first, documents.variant("ccore", rows=rows(*words), repeats=3))


def trained(
    efficiency: float | None,
    proven: dict[str, Any] | None = None,
    communication: float | None = None,
    **proof: Any,
) -> dict[str, Any]:
    points = [documents.point(1, 15.9, efficiency=1.0), documents.point(4, 15.4, efficiency=efficiency)]
    if communication is not None:
        points[1]["communication"] = communication
    return documents.document(
        RUN, documents.variant(points=points, proof=proven or {}), benchmark="resnet50", ranks=RANKS, **proof
    )


def swept(proven: dict[str, Any] | None = None, **proof: Any) -> dict[str, Any]:
    only = documents.variant(rows=rows((None, 1.0, None)), proof=proven or {})
    return documents.document(RUN, only, **proof)


@pytest.mark.parametrize(
    ("document", "said", "word"),
    [
        (
            compared(("undecided", 2.0, 7), ("undecided", 1.5, 5)),
            "ccore against nccl: undecided after 3 repeats (1.50 to 2.00 times the speed): --repeats 7 might decide",
            "unsure (undecided)",
        ),
        (
            compared(("faster", 4.2, None), ("faster", 1.4, None), ("slower", 0.8, None), ("within noise", 1.0, None)),
            ("ccore against nccl: faster at 2 sizes (1.40 to 4.20 times the speed), slower at 1 size (0.80 times the "
            "speed), within noise at 1 size"),
            "measured",
        ),
        (
            compared(("faster", 4.2, None), ("undecided", 1.4, None)),
            ("ccore against nccl: faster at 1 size (4.20 times the speed), undecided at 1 size after 3 repeats "
            "(1.40 times the speed): even 50 repeats may not decide, measure while the machines are idle"),
            "measured",
        ),
        (
            compared(("measured once", 2.0, None)),
            "ccore against nccl: 2.00 times the speed at 1 size, measured once: --repeats 5 tells this from noise",
            "measured",
        ),
        (
            trained(0.2428),
            ("measured: 24 % of linear with 4 ranks: communication or shared cores; "
            "clusterctl bench --collective all_reduce measures communication alone; not judged: no --min-efficiency"),
            "measured",
        ),
        (
            trained(0.6, communication=0.38),
            ("measured: 60 % of linear with 4 ranks; communication is the bottleneck, it takes 38 % of a step; "
            "clusterctl bench --collective all_reduce measures communication alone; not judged: no --min-efficiency"),
            "measured",
        ),
        (
            trained(0.2428, communication=0.05),
            ("measured: 24 % of linear with 4 ranks: perhaps shared cores; communication is not the bottleneck, it "
            "takes 5 % of a step; clusterctl check judges the settings of the hosts; not judged: no --min-efficiency"),
            "measured",
        ),
        (
            trained(0.97, communication=0.03),
            ("measured: 97 % of linear with 4 ranks; communication is not the bottleneck, it takes 3 % of a step; not "
            "judged: give --min-efficiency 85, or if you expect no more, "
            "record it with clusterctl runs baseline record NAME"),
            "measured",
        ),
        (
            trained(0.849, {"stragglers": {"4": [{"rank": 3, "host": "n4", "loss": 0.16}]}}, min_efficiency=0.85)
            | {"status": "below-threshold"},
            ("bad (below threshold): 84 % of linear with 4 ranks, below the 85 % of --min-efficiency: rank 3 on n4 is "
            "16 % below the median"),
            "bad (below threshold)",
        ),
        (
            swept({"expected": {**EXPECTED, "verdict": "fine", "share": 0.9}}),
            ("good (as expected): 329 GB/s at 1 GiB, 90 % of the 367 GB/s that this hardware allows; clusterctl accept "
            "judges the nodes"),
            "good (as expected)",
        ),
        (
            swept({"expected": {**EXPECTED, "verdict": "slow", "share": 0.3}}, ranks=RANKS),
            ("bad (slow): 329 GB/s at 1 GiB, 30 % of the 367 GB/s that this hardware allows; clusterctl check shows "
            "the nodes"),
            "bad (slow)",
        ),
        (
            swept({"sharing": f"2 ({TIME_SLICES})"}),
            ("unsure (time slices): the ranks took turns on a GPU, so these figures are not those of the library; "
            "start MPS as below"),
            "unsure (time slices)",
        ),
        (
            swept(slow=[{"nodes": ["n3"], "place": 2, "interface": None, "ratio": 0.76, "chance": 1e-6}])
            | {"status": "doubtful"},
            ("unsure (doubtful): n3 rail 2 is 24 % slower than pairs beside it, and all ranks wait for it; clusterctl "
            "check shows the nodes"),
            "unsure (doubtful)",
        ),
        (
            trained(None, min_efficiency=0.85, baseline={
                "name": "b", "verdict": "ok", "reason": None, "hint": None, "judged": 1, "figures": 1,
                "too_noisy": [], "below": [],
            }) | {"status": "not-judged"},
            ("unsure (not judged): no efficiency was measured, so --min-efficiency judged nothing; it compares one "
            "rank with more ranks"),
            "unsure (not judged)",
        ),
    ],
)  # fmt: skip
def test_the_first_line_says_what_follows(document: dict[str, Any], said: str, word: str) -> None:
    record = from_document(document)
    assert bench_views.text(record).splitlines()[0] == said
    view = bench.view(record, for_page=True)
    assert (view.sentence, view.word) == (said, word)
    assert f'<p class="lead">{said}</p>' in bench_views.page(record)


def test_the_text_of_a_failed_run_begins_as_its_page_and_gives_the_reason_once() -> None:
    fault = {
        "kind": "missing-program",
        "message": "n1: torch is not installed",
        "hint": "run clusterctl bootstrap",
    }
    record = from_document(swept(failures=[fault]) | {"status": "failed"})
    said = "bad (failed): n1: torch is not installed; run clusterctl bootstrap"
    assert f'<p class="lead">{said}</p>' in bench_views.page(record)
    assert bench_views.text(record).splitlines()[0] == said
    faults = [
        Fault(FaultKind.MISSING_PROGRAM, fault["message"], hint=fault["hint"]),
        Fault(FaultKind.NODE_LOST, "n2: connection lost", hint="check n2"),
    ]
    assert list(fault_lines(faults, said)) == ["failed: node-lost: n2: connection lost", "hint: check n2"]
    assert len(list(fault_lines(faults))) == 4


def test_only_a_baseline_a_bound_or_a_threshold_makes_a_run_good() -> None:
    """A green word above 24 % of linear would be read as a verdict."""
    assert bench.view(from_document(trained(0.2428))).tone.value == "faint"
    assert bench.view(from_document(trained(0.99))).word == "measured"
    assert bench.view(from_document(trained(0.99, min_efficiency=0.85))).tone.value == "good"


@pytest.mark.parametrize(
    ("efficiency", "least", "status"),
    [(0.96, 85.0, "ok"), (0.85, 85.0, "ok"), (0.849, 85.0, "below-threshold"), (None, 85.0, "not-judged"),
     (0.24, None, "ok")],
)  # fmt: skip
def test_min_efficiency_judges_the_points_of_a_training(
    efficiency: float | None, least: float | None, status: str
) -> None:
    result = BenchResult.model_validate(trained(efficiency))
    held = trust.held_to(result, least)
    assert held.status.value == status
    assert held.proof.min_efficiency == (None if least is None else least / 100)
    failed = result.model_copy(update={"status": "failed"})
    assert trust.held_to(failed, least).status == "failed"


@pytest.mark.parametrize(
    ("training", "np", "points", "refused"),
    [
        (None, None, None, "judges trainings"),
        (Training(), 4, None, "needs one rank and more"),
        (Training(), None, (2, 4), "needs one rank and more"),
        (Training(), None, (1,), "needs one rank and more"),
        (Training(), None, (1, 4), ""),
        (Training(), None, None, ""),
    ],
)
def test_min_efficiency_without_an_efficiency_is_refused_before_a_node_is_contacted(
    training: Training | None, np: int | None, points: tuple[int, ...] | None, refused: str
) -> None:
    asked = Request(training, {}, np, points, None, None, None, 60.0)
    trust.require_curve(None, asked)
    if refused:
        with pytest.raises(UsageError, match=refused):
            trust.require_curve(85.0, asked)
    else:
        trust.require_curve(85.0, asked)


@pytest.mark.parametrize(
    ("slow_ranks", "slow_pairs", "said"),
    [
        ([], None, "pairs of neighbours: no rank is slow (4 to 5 GB/s at 4 MiB)"),
        ([], [], "pairs of neighbours and of nodes: no rank is slow (4 to 5 GB/s at 4 MiB)"),
        (
            [{"rank": 1, "host": "n1", "loss": 0.4}],
            None,
            "pairs of neighbours: slow: rank 1 (4 to 5 GB/s at 4 MiB)",
        ),
    ],
)
def test_the_text_names_the_launches_that_looked_for_a_slow_rank(
    slow_ranks: list[dict[str, Any]], slow_pairs: list[Any] | None, said: str
) -> None:
    ranks = [
        {"rank": rank, "host": f"n{rank}", "gbps": 5.0 - rank, "gbps_with": {str(1 - rank): 5.0 - rank}}
        for rank in range(2)
    ]
    proven = {"stragglers": {"2": slow_ranks}}
    more = {} if slow_pairs is None else {"slow": slow_pairs}
    document = swept(proven, neighbours={"size_bytes": 4 << 20, "ranks": ranks}, **more)
    assert said in bench_views.text(from_document(document)).splitlines()


def test_a_sweep_of_small_messages_shows_its_least_time_instead_of_zero_bandwidth() -> None:
    few = [documents.row(1024 << at, 253.23 + at, 0.0) for at in range(2)]
    found = from_document(documents.document(RUN, documents.variant(rows=few)))
    assert bench.view(found).sentence.startswith("measured: 253.2 \u00b5s at 1 KiB; not judged: no baseline")
