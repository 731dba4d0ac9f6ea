"""Runs side by side: the ratios, the words for them, and what makes two runs no match."""

from dataclasses import replace

import pytest
from result_documents import H200_NP2, H200_NP4, collective, training

from clusterctl.errors import UsageError
from clusterctl.report.html import comparison_page
from clusterctl.report.text import comparison as reports
from clusterctl.results.comparison import Word, compare

LATER = "20261121T091500Z-bench-aaaa"


def faster(record, by, run=LATER):
    """The same sweep, every time divided by a factor."""
    rows = [{**row, "time_us": row["time_us"] / by} for row in record.document["rows"]]
    return replace(
        record, document={**record.document, "rows": rows}, summary=replace(record.summary, run=run)
    )


def test_a_run_against_itself_is_within_noise_everywhere():
    one = collective()
    found = compare([one, faster(one, 1.0)])
    assert found.alike and found.kind == "collective"
    assert len(found.lines) == 11
    assert {line.figures[1].word for line in found.lines} == {Word.SAME}
    assert all(line.figures[0].ratio is None for line in found.lines)
    assert found.names == ("A 2026-11-20 09:15", "B 2026-11-20 09:15")
    assert reports.cautions(found) == []


@pytest.mark.parametrize(
    ("by", "word"),
    [(1.04, "within noise"), (0.96, "within noise"), (1.06, "faster"), (0.94, "slower"), (2, "faster")],
)
def test_a_single_sweep_knows_no_difference_below_five_percent(by, word):
    one = collective()
    (figure,) = {line.figures[1] for line in compare([one, faster(one, by)]).lines[-1:]}
    assert figure.ratio == pytest.approx(by) and figure.word.value == word and figure.noise == 0.05


def test_a_training_goes_by_its_own_spread():
    one = training([[1000.0], [990.0] * 4])
    near = training([[1004.0], [994.0] * 4], run="20261121T093000Z-bench-0002")
    far = training([[1020.0], [900.0] * 4], run="20261121T093000Z-bench-0003")
    found = compare([one, near, far])
    words = [[figure.word and figure.word.value for figure in line.figures] for line in found.lines]
    assert [line.at for line in found.lines] == [1, 4]
    assert words == [[None, "within noise", "faster"], [None, "within noise", "slower"]]
    assert found.lines[1].figures[2].ratio == pytest.approx(900 / 990)
    assert found.lines[0].figures[1].noise == pytest.approx(0.004 * 2**0.5, rel=0.01)


def test_what_was_not_made_alike_is_said_loudly():
    found = compare([collective(H200_NP4), collective(H200_NP2, run=LATER)])
    assert not found.alike
    assert [(one.field, one.values) for one in found.differences] == [("np", ("4", "2"))]
    assert found.names == ("A np 4", "B np 2")
    text = reports.render(found)
    assert "CAUTION: np differs (A: 4, B: 2)" in text
    assert reports.to_document(found)["comparable"] is False
    page = comparison_page.render(found, [collective(H200_NP4), collective(H200_NP2, run=LATER)])
    assert "These runs differ" in page and "np differs (A: 4, B: 2)" in page


def test_points_of_a_curve_are_compared_where_both_have_them():
    one = training([[100.0], [95.0] * 2, [90.0] * 4])
    other = training([[50.0], [45.0] * 4], run=LATER, precision="fp32")
    found = compare([one, other])
    assert [line.at for line in found.lines] == [1, 2, 4]
    assert found.lines[1].figures[1] is None
    assert [one.field for one in found.differences] == ["precision"]
    assert found.names == ("A amp-bf16", "B fp32")
    assert reports.render(found).splitlines()[-3].split() == ["2", "190.0", "-", "-"]


def test_more_ranks_on_other_points_are_no_difference():
    one, other = training([[100.0], [95.0] * 2]), training([[100.0], [95.0] * 2, [90.0] * 4], run=LATER)
    assert compare([one, other]).alike


def test_a_run_without_a_key_is_not_called_comparable():
    one = collective()
    bare = replace(one, summary=replace(one.summary, key=None, run=LATER))
    found = compare([one, bare])
    assert not found.alike
    assert f"the measured configuration is not recorded in {LATER}" in reports.cautions(found)


def test_a_run_that_failed_is_marked():
    one = collective()
    failed = replace(one, summary=replace(one.summary, status="failed", run=LATER))
    assert f"{LATER} is failed" in reports.cautions(compare([one, failed]))


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
    nothing = replace(one, document={**one.document, "rows": []}, summary=replace(one.summary, run=LATER))
    with pytest.raises(UsageError, match="has no figures to compare"):
        compare([one, nothing])


def test_the_document_has_every_figure():
    document = reports.to_document(compare([collective(), faster(collective(), 1.25)]))
    assert document["schema"] == "clusterctl.comparison/1" and document["comparable"] is True
    assert document["lines"][-1] == {
        "size_bytes": 1 << 30,
        "figures": [
            {"busbw_gbps": 355.54, "time_us": 4529.98, "ratio": None, "noise": None, "word": None},
            {"busbw_gbps": 355.54, "time_us": 4529.98 / 1.25, "ratio": 1.25, "noise": 0.05, "word": "faster"},
        ],
    }


def test_hostile_names_do_nothing_on_the_page():
    text = "<script>alert(1)</script>\u202e"
    records = [collective(library="nccl"), collective(library=text, run=LATER)]
    page = comparison_page.render(compare(records), records)
    assert "<script" not in page and "\u202e" not in page and "&lt;script&gt;" in page
