"""One node of a fleet cannot outvote the others, cost the controller memory, or end its reports."""

from __future__ import annotations

import json
import math
import random
import tracemalloc

import pytest
from hostile_texts import BREAKS, HIDDEN, VARIANTS, values

from clusterctl.acceptance.checked import NodeDevices, check
from clusterctl.acceptance.engine import rounds_of_pairs, with_partner
from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import AcceptLimits, limits
from clusterctl.acceptance.model import (
    Parsed,
    RowFinding,
    RowFingerprint,
    RowMeasurement,
    RowOutcome,
    RowStatus,
)
from clusterctl.acceptance.on_node import outcome_of
from clusterctl.acceptance.outputs import dcgm, fio, iperf3, nvbandwidth, perftest, records
from clusterctl.text.foreign import NotUnderstood
from clusterctl.workloads.records import MARK

KNOWN = limits(None)
BAD = (RowStatus.WARN, RowStatus.FAIL)
EIGHT = NodeDevices(8, frozenset({"mlx5_0", "mlx5_1"}))


def node(name, values, hashes=()):
    """What a node measured: a value and a hash of each GPU."""
    measured = tuple(
        RowMeasurement("bf16_tflops", value, "TFLOP/s", True, f"GPU {index}")
        for index, value in enumerate(values)
    )
    same = tuple(RowFingerprint("gemm_sha256", text, f"GPU {index}") for index, text in enumerate(hashes))
    return RowOutcome(name, "gpu-gemm", "unknown GPU", parsed=Parsed(measured, same))


LIES = (0.01, 0.5, 0.75, 0.9, 1.1, 1.5, 10.0, 1e15)


def test_a_minority_of_liars_makes_no_honest_node_look_unfit():
    """Up to (n - 1) / 2 of n nodes lie, with as many devices as they like: 1,000 seeded fleets."""
    chance = random.Random(30)
    for _ in range(1000):
        count = chance.randint(3, 12)
        liars = set(chance.sample(range(count), chance.randint(1, (count - 1) // 2)))
        share, text = chance.choice(LIES), chance.choice("xyz")
        outcomes = []
        for number in range(count):
            devices = chance.choice((1, 2, 8, 64)) if number in liars else 4
            middle = 600 * (share if number in liars else 1)
            values = [middle * (1 + chance.gauss(0, 0.002)) for _ in range(devices)]
            outcomes.append(node(f"n{number}", values, [text if number in liars else "right"] * devices))
        for number, found in enumerate(judge(outcomes, KNOWN)):
            assert number in liars or found.status not in BAD, (count, liars, share, found.reason)


def test_a_liar_that_reports_zero_does_not_end_the_comparison():
    found = judge([node("a", [600.0]), node("b", [601.0]), node("c", [300.0]), node("d", [0.0])], KNOWN)
    assert [one.status in BAD for one in found] == [False, False, True, True]


SIZES = (*range(3, 10), 100)


@pytest.mark.parametrize("count", SIZES)
def test_as_many_liars_as_can_be_outvoted_agree_and_change_nothing(count):
    """(n - 1) / 2 liars print the same values and hashes; one of n / 2 bad nodes does not lie, and is found."""
    chance = random.Random(count)
    for lie in LIES:
        for is_slow_beside in (False, True):
            liars = set(chance.sample(range(count), (count - 1) // 2 - is_slow_beside))
            slow = chance.choice(sorted(set(range(count)) - liars)) if is_slow_beside and count > 4 else None
            outcomes = []
            for number in range(count):
                share = lie if number in liars else 0.5 if number == slow else 1
                values = [600 * share * (1 + chance.gauss(0, 0.002)) for _ in range(4)]
                outcomes.append(node(f"n{number}", values, ["lie" if number in liars else "right"] * 4))
            found = judge(outcomes, KNOWN)
            honest = set(range(count)) - liars - {slow}
            assert [found[one].reason for one in honest if found[one].status in BAD] == [], (lie, liars)
            assert slow is None or found[slow].status is RowStatus.FAIL, (lie, found[slow].reason)
            # Who prints another hash than most nodes fails, whatever its values.
            assert all(found[one].status is RowStatus.FAIL for one in liars)


def rail(value):
    return RowMeasurement("write_gbit_per_s", value, "Gb/s", True, "mlx5_0")


def pairs(count, print_of):
    """Measure a row of pairs as the engine does; ``print_of`` returns what the client of a pair prints."""
    names = [f"n{number}" for number in range(count)]
    best = {}
    for ring in rounds_of_pairs(names):
        for server, client in ring:
            value = print_of(names.index(server), names.index(client))
            for name in (client, server):
                found = RowOutcome(name, "rdma-bandwidth", "RDMA 400 Gb/s", parsed=Parsed((rail(value),)))
                best[name] = with_partner(best.get(name), found, is_client=name == client)
    return judge([best[name] for name in names], AcceptLimits(()))


@pytest.mark.parametrize("count", SIZES)
def test_liars_in_pairs_fail_no_node_with_an_honest_partner(count):
    """A liar prints what it likes about both nodes of its pair, and is slow with whom it likes."""
    chance = random.Random(count)
    for _ in range(100 if count < 100 else 10):
        liars = set(chance.sample(range(count), (count - 1) // 2))
        share, is_slow = chance.choice(LIES), chance.random() < 0.5

        def printed(server, client, liars=liars, share=share, is_slow=is_slow):
            rate = 390 * (1 + chance.gauss(0, 0.002)) * (0.5 if is_slow and server in liars else 1)
            return share * rate if client in liars else rate

        for number, found in enumerate(pairs(count, printed)):
            beside = {(number - 1) % count, (number + 1) % count}
            if number in liars or beside <= liars:
                continue
            # A slow node of three spoils two of their values, so that a difference is a warning.
            bad = (RowStatus.FAIL,) if count == 3 else BAD
            assert found.status not in bad, (liars, share, is_slow, found.reason)


@pytest.mark.parametrize("count", SIZES)
def test_a_slow_node_is_found_in_pairs(count):
    for slow in range(min(count, 9)):
        found = pairs(count, lambda *pair, slow=slow: 292.0 if slow in pair else 390.0)
        bad = [number for number, one in enumerate(found) if one.status in BAD]
        assert bad == [slow], [one.reason for one in found]
        assert found[slow].status is (RowStatus.WARN if count == 3 else RowStatus.FAIL)


def test_a_good_node_with_one_wrong_device_still_fails():
    found = judge(
        [node("a", [1] * 3, "xxx"), node("b", [1] * 3, "xxy"), node("c", [1] * 3, "xxx")], AcceptLimits(())
    )
    assert [one.status for one in found] == [RowStatus.OK, RowStatus.FAIL, RowStatus.OK]
    assert "GPU 2: gemm_sha256 differs from that of 3 of 3 equal nodes" in found[1].reason


@pytest.mark.parametrize(
    ("parsed", "said"),
    [
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 8"),)), "have no GPU 8"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 0-8"),)), "have no GPU 0-8"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 0-1-2"),)), "have no"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU -1"),)), "have no"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU \u0663"),)), "have no"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "mlx5_2"),)), "have no mlx5_2"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 01"),)), "have no GPU 01"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 0-01"),)), "have no GPU 0-01"),
        (Parsed((RowMeasurement("f", 1.0, "", True, "GPU 1"),) * 2), "f of GPU 1 comes twice"),
        (Parsed((RowMeasurement("f", 1.0, "", True),) * 2), "f of the node comes twice"),
        (Parsed((), (RowFingerprint("f", "x", "GPU 1"),) * 2), "f of GPU 1 comes twice"),
        (Parsed((RowMeasurement("f", 1.7e308, "", True),)), "must be at most 1e"),
        (Parsed((RowMeasurement("f", -2e18, "", True),)), "must be at most 1e"),
        (Parsed((RowMeasurement("f", math.inf, "", True),)), "must be at most 1e"),
        (Parsed((RowMeasurement("f", math.nan, "", True),)), "must be at most 1e"),
        (Parsed(findings=(RowFinding(RowStatus.WARN, "x"),) * 1001), "at most 1000 messages"),
    ],
)
def test_what_a_node_cannot_have_measured_makes_its_output_unreadable(parsed, said):
    with pytest.raises(NotUnderstood, match=said):
        check(parsed, EIGHT)
    outcome = outcome_of(RowOutcome("a", "row"), lambda _: parsed, "", EIGHT)
    assert said in outcome.failed and outcome.parsed == Parsed()


def test_what_a_node_has_is_read():
    check(
        Parsed(
            tuple(
                RowMeasurement("f", 1e18, "", True, at) for at in ("", "GPU 0", "GPU 7", "GPU 0-7", "mlx5_1")
            )
        ),
        EIGHT,
    )


def matrices(count, size):
    cell = [["1"] * size] * size
    cases = [
        {"name": name, "status": "Passed", "bandwidth_matrix": cell} for name in nvbandwidth.TESTS
    ] * count
    return json.dumps({"nvbandwidth": {"testcases": cases}})


_FIO = json.dumps({"jobs": [{"jobname": "write"}] * 400_000})
FLOODS = {
    "matrices": (nvbandwidth.parse, matrices(6, 256)),
    "one large matrix": (nvbandwidth.parse, matrices(1, 64)),
    "a case that comes twice": (nvbandwidth.parse, matrices(2, 8)),
    "numbers": (nvbandwidth.parse, '{"nvbandwidth": [' + "1," * 4_000_000 + "1]}"),
    "lists": (dcgm.parse, '{"DCGM Diagnostic": [' + "[]," * 2_700_000 + "[]]}"),
    "jobs": (fio.parse, _FIO),
    "records": (records.parse, f"{MARK}{{}}\n" * 300_000),
    "values of a GPU": (
        records.parse,
        (
            MARK
            + json.dumps({"kind": "device-measured", "row": "hbm", "name": "copy", "value": 1, "gpu": 0})
            + "\n"
        )
        * 60_000,
    ),
    "streams": (iperf3.parse, "clusterctl: 1 stream(s) over TCP\n" * 300_000),
    "one large document": (iperf3.parse, "clusterctl: 1 stream(s) over TCP\n[" + "1," * 4_000_000),
    "rails": (
        perftest.parse,
        "clusterctl: rail mlx5_0 RDMA\n#bytes #iterations BW average[Gb/sec]\n65536 1000 390\n" * 80_000,
    ),
}


@pytest.mark.parametrize(("parse", "text"), FLOODS.values(), ids=FLOODS)
def test_eight_megabytes_of_one_node_cost_little(parse, text):
    tracemalloc.start()
    found = outcome_of(RowOutcome("a", "row"), parse, text[: 8 << 20], EIGHT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.failed.startswith("its output cannot be read: ") and found.parsed == Parsed()
    assert peak < 100 << 20, f"{peak >> 20} MiB"


def _device_records(*records):
    return "\n".join(MARK + json.dumps(one) for one in (*records, {"kind": "device-end"}))


# Of each tool: its parser, and an output with one hostile value instead of a value, a name or a list.
TOOLS = {
    "nvbandwidth value": (nvbandwidth.parse, lambda bad: json.dumps({"nvbandwidth": {"testcases": [
        {"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [[bad] * 8]}]}})),
    "nvbandwidth matrix": (nvbandwidth.parse, lambda bad: json.dumps({"nvbandwidth": {"testcases": [
        {"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [bad] * 8}]}})),
    "nvbandwidth error": (nvbandwidth.parse, lambda bad: json.dumps({"nvbandwidth": {"error": bad, "testcases": bad}})),
    "dcgm warnings": (dcgm.parse, lambda bad: json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [
        {"name": bad, "results": [{"status": "Fail", "entity_id": bad, "warnings": [bad] * 9}]}]}]}})),
    "fio rate": (fio.parse, lambda bad: json.dumps({"jobs": [
        {"jobname": name, "error": 0, "write": {"bw_bytes": bad}, "read": {"bw_bytes": bad, "iops": bad}}
        for name in ("write", "read", "randread")]})),
    "record value": (records.parse, lambda bad: _device_records(
        {"kind": "device-measured", "row": "hbm", "name": "copy", "value": bad, "gpu": 0})),
    "record GPU": (records.parse, lambda bad: _device_records(
        {"kind": "device-measured", "row": "hbm", "name": "copy", "value": 1, "gpu": bad})),
    "record hash": (records.parse, lambda bad: _device_records(
        {"kind": "device-measured", "row": "sdc", "name": "gemm", "value": 1, "gpu": 0, "unit": bad,
         "detail": {"sha256": bad, "runs": bad, "comparable": bad}})),
    "record reason": (records.parse, lambda bad: _device_records(
        {"kind": "device", "gpu": 0, "name": bad, "torch": bad, "other_processes": bad},
        {"kind": "device-failure", "row": bad, "reason": bad, "gpu": 0})),
    "perftest value": (perftest.parse, lambda bad: "clusterctl: rail mlx5_0 RDMA\n#bytes #iterations BW average"
        f"[Gb/sec]\n65536 1000 {bad}\n"),
    "iperf3 rate": (iperf3.parse, lambda bad: "".join(
        f"clusterctl: {streams} stream(s) over TCP\n"
        + json.dumps({"start": {"version": bad}, "end": {"sum_received": {"bits_per_second": bad}}}) + "\n"
        for streams in (1, 8))),
}  # fmt: skip
HONEST_ROWS = [node(name, [600.0 + number] * 4, ["right"] * 4) for number, name in enumerate("abc")]


def _outcome_and_peak(parse, text):
    """Return what the controller reads from a tool's output, and the most bytes that it allocated for that."""
    tracemalloc.start()
    found = outcome_of(RowOutcome("liar", "gpu-gemm", "unknown GPU"), parse, text, EIGHT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


@pytest.mark.parametrize(("parse", "output"), TOOLS.values(), ids=TOOLS)
def test_no_value_of_a_tool_costs_the_controller_or_the_others_anything(parse, output):
    """Each hostile value in each place: read within bounds, or one reason; what the others measured counts."""
    for bad in values(2 * VARIANTS):
        try:
            text = output(bad)
        except (ValueError, UnicodeEncodeError):
            continue
        bound = max(2 << 20, 16 * len(text))
        # What another thread of this process allocates meanwhile is counted as well, but not three times.
        for _ in range(3):
            found, peak = _outcome_and_peak(parse, text)
            if peak < bound:
                break
        assert peak < bound, (str(bad)[:40], peak, len(text))
        assert not found.failed or (
            found.parsed == Parsed() and found.failed.startswith("its output cannot be read: ")
        )
        said = [found.failed, *(one.text for one in found.parsed.findings)]
        said += [one.device for one in (*found.parsed.measurements, *found.parsed.findings)]
        said += [one.text for one in found.parsed.fingerprints]
        assert all(len(one) <= 700 and "\n" not in one and not _acts(one) for one in said), (
            str(bad)[:40],
            said,
        )
        assert all(abs(one.value) <= 1e18 for one in found.parsed.measurements)
        assert len({(one.field, one.device) for one in found.parsed.measurements}) <= 2 * 8 * 8
        judged = judge([*HONEST_ROWS, found], KNOWN)
        assert [one.status in BAD for one in judged[:3]] == [False] * 3, (str(bad)[:40], judged)


def _acts(text):
    return any(sign in text for sign in (*BREAKS, *HIDDEN))
