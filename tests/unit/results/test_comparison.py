"""Runs side by side: the ratios, the words for them, and what makes two runs no match."""

from dataclasses import replace

import bench_views
import pytest
from bench_documents import spread, with_rows
from result_documents import H200_NP2, H200_NP4, collective, training

from clusterctl.errors import UsageError
from clusterctl.report.line import Tone
from clusterctl.report.text import of_view
from clusterctl.results.comparison import compare, to_document
from clusterctl.views import comparison
from clusterctl.views.comparison import cautions

LATER = "20261121T091500Z-bench-aaaa"


def faster(record, by, run=LATER):
    """The same sweep, every time divided by a factor."""
    return repeated(record, [1 / by], run)


def repeated(record, factors, run):
    """The same sweep with repeats: every time multiplied by each of the factors."""
    (only,) = record.document["variants"]
    rows = [
        {**row, "time_us": spread(*(row["time_us"]["median"] * factor for factor in factors))}
        for row in only["rows"]
    ]
    document = {**record.document, "variants": [{**only, "repeats": len(factors), "rows": rows}]}
    return replace(record, document=document, summary=record.summary.model_copy(update={"run": run}))


def words(found):
    return {figure.word.value for line in found.lines for figure in line.figures[1:]}


def test_single_sweeps_are_never_faster_or_slower():
    one = collective()
    for by in (0.5, 0.94, 1.0, 1.06, 2.0):
        found = compare([one, faster(one, by)])
        assert found.alike and found.kind == "collective" and len(found.lines) == 11
        assert words(found) == {"measured once"}
        assert {line.figures[1].noise for line in found.lines} == {None}
        assert all(line.figures[0].ratio is None for line in found.lines)
        assert cautions(found) == []
    text = bench_views.compared(one, faster(one, 2.0))
    assert "2.000      ?  measured once" in text
    assert (
        "A and B were measured once, so a difference may be noise. To tell them apart: bench --repeats 5"
        in text
    )


def test_names_of_equal_runs_have_the_second_and_the_end_of_the_id():
    one = collective()
    assert compare([one, faster(one, 1.0)]).names == (
        "A 2026-11-20 09:15:00 c0de",
        "B 2026-11-20 09:15:00 aaaa",
    )


def test_the_repeats_of_one_side_widen_the_noise_though_the_other_was_measured_once():
    one = collective()
    wild = repeated(one, [1.0, 3.0, 6.4], "20261120T091500Z-bench-0001")
    for records in ([wild, faster(one, 0.9)], [faster(one, 0.9), wild]):
        found = compare(records)
        assert words(found) == {"within noise"}
        assert all(line.figures[1].noise > 1 for line in found.lines)
    steady = repeated(one, [0.995, 1.0, 1.005], "20261120T091500Z-bench-0002")
    found = compare([steady, faster(one, 2.0)])
    assert words(found) == {"measured once"}
    assert "B was measured once" in bench_views.compared(steady, faster(one, 2.0))


def test_repeats_on_both_sides_tell_ten_percent_from_two_percent_of_noise():
    one, around = collective(), [0.98, 0.99, 1.0, 1.01, 1.02]
    same = compare([repeated(one, around, "r-1"), repeated(one, [1.01, 1.0, 0.97, 1.02, 0.99], "r-2")])
    assert words(same) == {"within noise"}
    faster_by_ten = repeated(one, [0.9 * factor for factor in around], "r-2")
    found = compare([repeated(one, around, "r-1"), faster_by_ten])
    assert words(found) == {"faster"}
    assert all(0.05 <= line.figures[1].noise < 0.1 for line in found.lines)
    assert found.repeats == (5, 5) and found.once == ()
    text = bench_views.compared(repeated(one, around, "r-1"), faster_by_ten)
    assert ", 5 repeats" in text and text.startswith(
        "B against A: faster at all 11 sizes (1.11 times the speed)\n"
    )
    back = compare([repeated(one, around, "r-1"), repeated(one, [1.2 * factor for factor in around], "r-2")])
    assert words(back) == {"slower"}


def test_a_training_goes_by_the_spread_of_its_windows():
    one = training([[1000.0], [990.0] * 4])
    near = training([[1004.0], [994.0] * 4], run="20261121T093000Z-bench-0002")
    far = training([[1060.0], [900.0] * 4], run="20261121T093000Z-bench-0003")
    found = compare([one, near, far])
    said = [[figure.word and figure.word.value for figure in line.figures] for line in found.lines]
    assert [line.at for line in found.lines] == [1, 4]
    assert said == [[None, "within noise", "faster"], [None, "within noise", "slower"]]
    assert found.lines[1].figures[2].ratio == pytest.approx(900 / 990)
    assert found.lines[0].figures[1].noise == 0.05
    single = training([[1060.0], [900.0] * 4], run="20261121T093000Z-bench-0004", windows=1)
    assert words(compare([single, far])) <= {"within noise", "measured once"}, "one window has no spread"


def test_what_was_not_made_alike_is_said_loudly():
    found = compare([collective(H200_NP4), collective(H200_NP2, run=LATER)])
    assert not found.alike
    assert [(one.field, one.values) for one in found.differences] == [("np", ("4", "2"))]
    assert found.names == ("A np 4", "B np 2")
    text = bench_views.compared(collective(H200_NP4), collective(H200_NP2, run=LATER))
    assert "CAUTION: np differs (A: 4, B: 2)" in text
    assert to_document(found)["comparable"] is False
    page = bench_views.compared_page(collective(H200_NP4), collective(H200_NP2, run=LATER))
    assert "These runs differ" in page and "np differs (A: 4, B: 2)" in page


def test_points_of_a_curve_are_compared_where_both_have_them():
    one = training([[100.0], [95.0] * 2, [90.0] * 4])
    other = training([[50.0], [45.0] * 4], run=LATER, precision="fp32")
    found = compare([one, other])
    assert [line.at for line in found.lines] == [1, 2, 4]
    assert found.lines[1].figures[1] is None
    assert [one.field for one in found.differences] == ["precision"]
    assert found.names == ("A amp-bf16", "B fp32")
    assert bench_views.compared(one, other).splitlines()[-3].split() == ["2", "190.0", "-", "-"]


def test_more_ranks_on_other_points_are_no_difference():
    one, other = training([[100.0], [95.0] * 2]), training([[100.0], [95.0] * 2, [90.0] * 4], run=LATER)
    assert compare([one, other]).alike


def test_a_run_without_a_key_is_not_called_comparable():
    one = collective()
    bare = replace(one, summary=one.summary.model_copy(update={"key": None, "run": LATER}))
    found = compare([one, bare])
    assert not found.alike
    assert f"the measured configuration is not recorded in {LATER}" in cautions(found)


def test_a_run_that_failed_is_marked():
    one = collective()
    failed = replace(one, summary=one.summary.model_copy(update={"status": "failed", "run": LATER}))
    assert f"{LATER} is failed" in cautions(compare([one, failed]))


def test_runs_with_nothing_in_common_are_refused():
    one = collective()
    with pytest.raises(UsageError, match="no figure in common"):
        compare([one, training([[1.0]])])
    with pytest.raises(UsageError, match="no number of ranks in common"):
        compare([training([[1.0]]), training([[1.0] * 2], run=LATER)])
    with pytest.raises(UsageError, match="named twice"):
        compare([one, one])
    with pytest.raises(UsageError, match="1 run"):
        compare([one])
    nothing = replace(
        one, document=with_rows(one.document, []), summary=one.summary.model_copy(update={"run": LATER})
    )
    with pytest.raises(UsageError, match="has no figures to compare"):
        compare([one, nothing])


def test_the_document_has_every_figure():
    document = to_document(compare([collective(), faster(collective(), 1.25)]))
    assert document["schema"] == "clusterctl.comparison/1" and document["comparable"] is True
    assert document["lines"][-1] == {
        "size_bytes": 1 << 30,
        "figures": [
            {"busbw_gbps": 355.54, "time_us": 4529.98, "ratio": None, "noise": None, "word": None},
            {
                "busbw_gbps": 355.54,
                "time_us": 4529.98 * (1 / 1.25),
                "ratio": 1.25,
                "noise": None,
                "word": "measured once",
            },
        ],
    }


def test_hostile_names_do_nothing_on_the_page():
    text = "<script>alert(1)</script>\u202e"
    records = [collective(library="nccl"), collective(library=text, run=LATER)]
    page = bench_views.compared_page(*records)
    assert "<script" not in page and "\u202e" not in page and "&lt;script&gt;" in page


def test_the_words_have_tones():
    one, around = collective(), [0.99, 1.0, 1.0, 1.0, 1.01]
    records = [repeated(one, [by * factor for factor in around], f"r-{by}") for by in (1.0, 0.5, 2.0, 1.01)]
    lines = of_view.lines(comparison.view(compare(records), records))
    tones = [(line.text[start:end], tone) for line in lines for start, end, tone in line.marks]
    assert tones.count(("faster", Tone.GOOD)) == tones.count(("slower", Tone.BAD)) == 11
    assert tones.count(("within noise", Tone.FAINT)) == 11
