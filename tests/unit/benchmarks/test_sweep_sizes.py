"""A table holds the sizes that were asked for, as each program rounds them, and no other."""

from dataclasses import replace

import pytest

from clusterctl.benchmarks.collective import COLLECTIVES, CollectiveSweep
from clusterctl.benchmarks.perf_output import Half, Row
from clusterctl.benchmarks.sweep_sizes import check_sizes, missed_end, reaching_end, wanted_sizes
from clusterctl.cli.bench import sweeps
from clusterctl.launch.request import Request

HALF = Half(1.0, 1.0, 1.0, 0)
SPLIT = [name for name in COLLECTIVES if name not in ("all_reduce", "broadcast", "reduce", "sendrecv")]


def rows(*sizes):
    return [Row(size, size // 4, "float", "sum", -1, HALF, HALF) for size in sizes]


def sweep(name="all_reduce", first=8, last=1024, factor=2):
    return CollectiveSweep(name=name, min_bytes=first, max_bytes=last, step_factor=factor)


def nccl_tests(size, np, split):
    """nccl-tests 2.17: AllGatherGetCollByteCount and its like, and all_reduce's whole elements."""
    count = size // 4
    return ((count // np) & -(16 // 4)) * np * 4 if split else count * 4


def collective_core(size, np, split):
    return size // 4 // np * np * 4 if split else size // 4 * 4


def torch_program(size, np, split):
    unit = 4 * (np if split else 1)
    return max(1, size // unit) * unit


@pytest.mark.parametrize("program", [nccl_tests, collective_core, torch_program])
@pytest.mark.parametrize("name", ["all_reduce", "sendrecv", *SPLIT])
@pytest.mark.parametrize("np", [1, 2, 3, 8, 24, 1000])
@pytest.mark.parametrize(
    ("first", "last", "factor"), [(8, 1 << 30, 2), (1, 64, 2), (1000, 100_000, 3), (10, 10, 2)]
)
def test_what_programs_really_print_is_accepted(program, name, np, first, last, factor):
    asked = sweep(name, first, last, factor)
    found = [program(size, np, name in SPLIT) for size in wanted_sizes(asked)]
    if program is torch_program:
        found = list(dict.fromkeys(found))
    assert check_sizes(asked, rows(*found), np) == ()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((8, 16, 32, 64, 128, 256, 512, 1024, 1 << 30), "a row of 1073741824 bytes, which was not requested"),
        ((8, 16, 32, 64, 128, 256, 512, 1024, 768), "a row of 768 bytes, which was not requested"),
        ((8, 16, 32, 64, 128, 256, 512, 512, 1024), "2 rows of 512 bytes instead of one"),
        ((8, 16, 32, 64, 128, 256, 1024), "no row of 512 bytes (7 of 8 sizes)"),
        ((8, 16, 32, 64, 128, 256, 512), "no row of 1024 bytes (7 of 8 sizes)"),
        ((16, 32, 64, 128, 256, 512, 1024), None),
        ((), "no row of 8 bytes (0 of 8 sizes)"),
    ],
)
def test_what_was_not_asked_for_comes_twice_or_is_missing(sizes, message):
    faults = check_sizes(sweep(), rows(*sizes), 2)
    assert [fault.kind.value for fault in faults] == (["unparsable"] if message else [])
    assert not message or message in faults[0].message


@pytest.mark.parametrize(
    ("first", "last", "factor", "words"),
    [
        (8, 16 << 20, 2, None),
        (8, 8 << 20, 4, None),
        (64, 64, 4, None),
        (
            8,
            1 << 20,
            4,
            "is 512K, because factor 4 from 8 does not reach -e 1M; add -b 16 or -f 2 to reach it",
        ),
        (64, 1000, 4, "is 256, because factor 4 from 64 does not reach -e 1000; add -b 250 to reach it"),
        (8, 1001, 2, "is 512, because factor 2 from 8 does not reach -e 1001"),
    ],
)
def test_a_sweep_that_ends_before_its_largest_size_is_announced(first, last, factor, words):
    note = missed_end(sweep(first=first, last=last, factor=factor))
    assert note == (words and f"the largest size {words}")


@pytest.mark.parametrize(
    ("last", "factor", "first"),
    [
        (1 << 20, 4, 16),
        (64 << 10, 4, 16),
        (8 << 20, 4, 8),
        (1 << 30, 2, 8),
        (1000, 4, 8),
        (16, 1, 8),
        (8, 4, 8),
    ],
)
def test_a_sweep_starts_where_it_reaches_its_end_if_that_is_near(last, factor, first):
    assert reaching_end(sweep(first=8, last=last, factor=factor)).min_bytes == first


def test_the_smoke_benchmark_reaches_its_own_largest_size():
    collective, _ = sweeps.smoke_requests(Request(None, {}, 2, None, None, None, None, 60.0))
    assert missed_end(CollectiveSweep(**collective.sweep)) is None


def test_a_row_of_another_type_or_operator_is_refused():
    asked = CollectiveSweep(min_bytes=8, max_bytes=16, datatype="half", op="max")
    assert asked.argv(("p",))[-4:] == ("-d", "half", "-o", "max")
    found = [Row(size, size // 2, "half", "max", -1, HALF, HALF) for size in (8, 16)]
    assert check_sizes(asked, found, 2) == ()
    (fault,) = check_sizes(asked, [found[0], replace(found[1], dtype="float")], 2)
    assert fault.message == "the table has a row of float and max, but half and max were requested"
    assert "-d" not in CollectiveSweep().argv(("p",))
