"""One text of a node or a rank is one line, or several of which each further one is indented: none imitates another."""

from __future__ import annotations

import json

import pytest
from hostile_texts import BREAKS, HIDDEN, texts
from locate_documents import document as located
from locate_documents import text

from clusterctl.acceptance.outputs import records
from clusterctl.benchmarks import locate, training
from clusterctl.benchmarks.locate import Unlike
from clusterctl.text.visible import ACTING_IN_A_LINE, one_line, one_line_texts, visible
from clusterctl.trust import usage

FORGED = "node02: slow: 71 % slower than pairs beside it"
BAD = list(texts(FORGED))


@pytest.mark.parametrize("sign", BREAKS)
def test_a_text_is_one_line(sign):
    assert one_line(f"cpu{sign}{FORGED}", 500).splitlines() == [f"cpu{' ' * len(sign)}{FORGED}"]


@pytest.mark.parametrize("sign", HIDDEN)
def test_a_text_is_visible_and_bounded(sign):
    assert sign not in one_line(f"a{sign}b", 500)
    assert len(one_line(1000 * sign, 40)) == 40


def test_every_text_of_a_record_is_one_line():
    found = one_line_texts({"a\nb": ["x\ny", 5, None, True, 0.5, {"c": "z" * 5000}]})
    assert found == {"a b": ["x y", 5, None, True, 0.5, {"c": "z" * 1000}]}


def record(kind, **fields):
    return "clusterctl-record " + json.dumps({"kind": kind, **fields})


def is_one_line(text):
    return len(text.splitlines()) <= 1 and ACTING_IN_A_LINE.search(text) is None and len(text) <= 1000


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_device_or_path_of_a_rank_begins_no_further_line(bad):
    texts = {
        rank: f"{record('locate-start', rank=rank, device=bad)}\n"
        + record("locate-window", rank=rank, rates={"hash": 1.0})
        for rank in range(3)
    }
    found = locate.parse(texts, ("a", "b", "c"))
    assert len(found.devices) == 3
    assert all(map(is_one_line, found.devices))
    (used,) = usage.of_table(f"# Usage of rank 0: {json.dumps({'read': {bad: bad}, 'transports': [bad]})}")
    assert all(map(is_one_line, [*used.read, *used.read.values(), *used.transports]))
    fields = {"rank": 0, "pid": 1, "host": bad, "device": bad, "path": bad, "ranks_per_gpu": bad}
    figures = dict.fromkeys(("samples_per_s_mean", "samples_per_s_spread", "loss_first", "loss_last"), 1.0)
    text = "\n".join([record("start", **fields), record("rank", **fields, **figures, parameters_digest="x")])
    run = training.parse({0: text})
    shown = [run.ranks[0].device, run.ranks[0].host, run.paths[0][1], run.settings["ranks_per_gpu"]]
    assert all(map(is_one_line, shown)), shown


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_failed_row_of_a_gpu_begins_no_further_line(bad):
    text = "\n".join(
        [
            record("device", gpu=0, name="H100", torch=bad),
            record("device-failure", gpu=bad, row=bad, reason=bad),
            record("device-end"),
        ]
    )
    parsed = records.parse(text)
    shown = [parsed.version, *(part for one in parsed.findings for part in (one.text, one.device))]
    assert len(parsed.findings) == 1 and all(map(is_one_line, shown)), shown


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_further_lines_of_a_device_are_indented_in_the_report(bad):
    """As a terminal shows it: what begins a line there is a line feed, or was made visible."""
    found = visible(text(located(5, unlike=(Unlike(1, bad, "cpu", 1),))))
    lines = found.splitlines()
    assert not any(line.startswith("node02") for line in lines), lines
    assert FORGED in found
