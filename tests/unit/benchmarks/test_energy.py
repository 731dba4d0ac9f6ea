"""The energy of a launch from what its ranks reported, whatever they send."""

import pytest

from clusterctl.benchmarks import energy
from clusterctl.benchmarks.energy import GpuEnergy

REPORT = {"gpu": "GPU-a", "before_mj": 1000, "after_mj": 801000, "elapsed_s": 2.0, "work": 100}


def of(gpu, joules, work=100.0):
    return GpuEnergy(gpu, joules, 2.0, work)


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in REPORT for value in (None, [], {}, True)),
        *({name: value} for name in ("before_mj", "work") for value in ("7", -1, 1 << 63, 1e300)),
        {"gpu": ""},
        {"reason": 7},
    ],
)
def test_a_malformed_report_has_no_energy(change):
    assert energy.of_report({**REPORT, **change}) == "a rank's report on its energy is malformed"


@pytest.mark.parametrize("report", [None, "812", [], 7, True])
def test_a_program_that_reports_none_is_named(report):
    assert energy.of_report(report) == energy.NOT_READ


def test_texts_of_ranks_are_bounded():
    assert len(energy.of_report({"reason": "x" * 9999})) == 200
    assert len(energy.of_report({**REPORT, "gpu": "x" * 9999}).gpu) == 200


def test_ranks_on_one_gpu_count_it_once():
    found = [of("GPU-a", 800.0), of("GPU-a", 790.0), of("GPU-b", 700.0)]
    assert energy.per_unit(found, 3) == 15.0


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        ([], energy.NOT_READ),
        ([of("GPU-a", 800.0), "this GPU has no energy counter"], "this GPU has no energy counter"),
        (
            [of("GPU-a", 800.0), of("GPU-b", 800.0, 99.0)],
            "the ranks report different numbers of bytes or steps",
        ),
        ([of("GPU-a", 800.0)], "only 1 of 2 ranks reported their energy"),
        ([of("GPU-a", 800.0, 5e-324), of("GPU-b", 800.0, 5e-324)], "the ranks report too few bytes or steps"),
    ],
)
def test_one_rank_without_energy_leaves_no_figure(ranks, reason):
    assert energy.per_unit(ranks, 2) == reason


def test_a_counter_that_grows_faster_than_any_gpu_draws_is_named():
    said = energy.of_report({**REPORT, "after_mj": 1 << 62})
    assert said == "the energy counter of a GPU grew by 2.306e+15 W, which no GPU draws"
