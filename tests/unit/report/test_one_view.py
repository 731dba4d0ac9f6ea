"""The terminal, the page, CSV, Prometheus and JUnit show the same figures of one run, because all show one view."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

import bench_documents
import bench_views
import pytest
from prometheus_client.parser import text_string_to_metric_families
from result_documents import collective, slow_rank_training

from clusterctl.cli.runs import listing
from clusterctl.results.record import Record, from_document
from clusterctl.rundir import RunDir

OFF = (0.9, 1.0, 1.3)
WORDS = ("faster", "undecided", "within noise")
Place = tuple[str, str]
"""A variant, and a size in bytes or a number of ranks."""


def repeated(run: str) -> Record:
    """Return a sweep of two variants with three repeats each."""
    sizes = ((1 << 10, 10.0), (1 << 20, 100.0), (1 << 30, 4000.0))
    variants = []
    for name, by in (("nccl", 1.0), ("ccore", 0.8)):
        rows = [
            bench_documents.row(
                size, tuple(time * by * off for off in OFF), tuple(size / time / by / off / 1e3 for off in OFF),
                ratio=1 / by, noise=0.05, word=None if name == "nccl" else word,
            )
            for (size, time), word in zip(sizes, WORDS, strict=True)
        ]  # fmt: skip
        joules = bench_documents.spread(*(0.8125 * by * off for off in OFF))
        spent = [{"np": 4, "per": "GB", "joules": joules, "reason": None}]
        variants.append(bench_documents.variant(name, rows=rows, repeats=3, library=name, energy=spent))
    return from_document(bench_documents.document(run, *variants))


def compared_training(run: str) -> Record:
    """Return a training of two variants with three repeats each on one, two and four ranks."""
    variants = []
    for name, by in (("plain", 1.0), ("packed", 0.75)):
        points = [
            bench_documents.point(
                np, tuple(100.0 * np * by * off for off in OFF), efficiency=None if np == 1 else 0.875,
                ratio=by, noise=0.05, word=None if name == "plain" else word,
            )
            for np, word in zip((1, 2, 4), ("slower", *WORDS[1:]), strict=True)
        ]  # fmt: skip
        steps = ((np, bench_documents.spread(*(2.0 * np / by * off for off in OFF))) for np in (1, 2, 4))
        spent = [{"np": np, "per": "step", "joules": joules, "reason": None} for np, joules in steps]
        variants.append(bench_documents.variant(name, points=points, repeats=3, energy=spent))
    return from_document(bench_documents.document(run, *variants, benchmark="resnet50"))


RECORDS = {
    "a sweep": lambda run: collective(run=run),
    "a training": lambda run: slow_rank_training(run=run, joules=105),
    "repeated variants": repeated,
    "a compared training": compared_training,
}


@pytest.fixture(params=RECORDS)
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Record, Path]:
    """Return a record, and the directory of run folders that has its run."""
    folder = RunDir.create("bench", tmp_path)
    record = RECORDS[request.param](folder.id)
    folder.write("results", dict(record.document))
    return record, tmp_path


def lines(record: Record) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(bench_views.csv(record))))


def figures(record: Record) -> dict[Place, tuple[float, ...]]:
    """Return the time and the bandwidth of each size, or the rate of each number of ranks, as CSV has them."""
    return {
        (line["variant"], line["size_bytes"] or line["np"]): tuple(
            float(line[name]) for name in ("time_us", "busbw_gbps", "samples_per_s") if line[name]
        )
        for line in lines(record)
    }


def digits_of(text: str) -> list[list[str]]:
    """Return the numbers in each line of a text, without the bounds of repeats."""
    plain = (re.sub(r"\([^()]*\)|\+-\S+", "", line) for line in text.splitlines())
    return [re.findall(r"(?<!\S)\d+(?:\.\d+)?(?!\S)", line) for line in plain]


def table_of_page(page: str) -> Iterator[list[str]]:
    body = re.search(r'aria-label="(?:Every|Variants) .*?</table>', page, re.DOTALL)
    assert body is not None
    for row in re.findall(r'<tr><th scope="row">.*?</tr>', body[0]):
        yield re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)


def test_the_terminal_shows_every_figure(
    shown: tuple[Record, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record, runs = shown
    listing.show(record.summary.run, runs=runs)
    printed = digits_of(capsys.readouterr().out)
    for place, values in figures(record).items():
        digits = 1 if record.result.repeats > 1 or record.result.points else 2
        first, *others = values
        wanted = [f"{first:.{digits}f}", *(f"{value:.2f}" for value in others)]
        assert any(set(wanted) <= set(line) for line in printed), (place, wanted)


def test_the_page_shows_every_figure_of_csv(shown: tuple[Record, Path]) -> None:
    record, _ = shown
    rows = list(table_of_page(bench_views.page(record)))
    for (_, at), values in figures(record).items():
        digits = 1 if record.result.points else 2
        wanted = {f"{values[0]:.{digits}f}", *(f"{value:.2f}" for value in values[1:])}
        assert any(at in row and wanted <= set(row) for row in rows), (at, wanted)


def test_prometheus_has_every_figure_of_csv_in_base_units(shown: tuple[Record, Path]) -> None:
    record, _ = shown
    units = {"time_seconds": 1e6, "busbw_bytes_per_second": 1e-9, "samples_per_second": 1.0}
    found: dict[Place, list[float]] = {}
    for family in text_string_to_metric_families(bench_views.prometheus(record)):
        name = family.name.removeprefix("clusterctl_bench_")
        for sample in family.samples if name in units else ():
            at = sample.labels.get("size_bytes") or sample.labels["np"]
            found.setdefault((sample.labels["variant"], at), []).append(sample.value * units[name])
    wanted = {place: sorted(values) for place, values in figures(record).items()}
    assert found.keys() == wanted.keys()
    for place, values in found.items():
        assert sorted(values) == pytest.approx(wanted[place]), place


def test_junit_has_the_best_figure_of_csv(shown: tuple[Record, Path]) -> None:
    record, _ = shown
    column = "samples_per_s" if record.result.points else "busbw_gbps"
    first = record.result.variants[0].name if len(record.result.variants) > 1 else ""
    best = max(float(line[column]) for line in lines(record) if line["variant"] == first)
    told = re.search(r"best: ([\d.]+) ", bench_views.junit(record))
    assert told is not None and float(told[1]) == pytest.approx(best, rel=1e-3)


def energies(record: Record) -> dict[tuple[str, str], float]:
    """Return the joules per GB of each variant, or per step at each number of ranks, as CSV has them."""
    names = ("joules_per_gb", "joules_per_step")
    return {
        (line["variant"], line["np"] if line[name] and name == "joules_per_step" else ""): float(line[name])
        for line in lines(record)
        for name in names
        if line[name]
    }


def test_every_form_shows_the_same_energy(
    shown: tuple[Record, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record, runs = shown
    listing.show(record.summary.run, runs=runs)
    texts = [capsys.readouterr().out, bench_views.page(record), bench_views.junit(record)]
    found = energies(record)
    if not found:
        reason = "energy per GB: not available (the measured program does not read NVML's energy counter)"
        said = [reason.replace("'", "") in re.sub("'|&#39;|&apos;", "", text) for text in texts]
        assert said == [False, True, True]  # a terminal leaves out what the program cannot read
    for joules in found.values():
        assert all(f"energy: {joules:.4g} J per " in text for text in texts), joules
    monitored = [
        sample.value * (1e9 if "byte" in family.name else 1.0)
        for family in text_string_to_metric_families(bench_views.prometheus(record))
        for sample in (family.samples if "energy" in family.name else ())
    ]
    assert sorted(monitored) == pytest.approx(sorted(found.values()))
    variants = len(record.result.variants)
    wanted = {"all_reduce": {1: 0, 2: 2}, "resnet50": {1: 4, 2: 6}}
    assert len(found) == wanted[record.result.benchmark][variants]


def comparisons(record: Record) -> dict[str, tuple[float, str]]:
    """Return the ratio and the word of the second variant at each size or number of ranks, as CSV has them."""
    others = [one.name for one in record.result.variants[1:]]
    return {
        line["size_bytes"] or line["np"]: (float(line["ratio"]), line["word"])
        for line in lines(record)
        if line["variant"] in others
    }


def test_every_form_has_the_ratio_and_the_word_of_each_comparison(
    shown: tuple[Record, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record, runs = shown
    found = comparisons(record)
    assert len(found) == (3 if len(record.result.variants) > 1 else 0)
    listing.show(record.summary.run, runs=runs)
    printed, junit = capsys.readouterr().out.splitlines(), bench_views.junit(record)
    page = bench_views.page(record)
    rows = list(table_of_page(page))
    for at, (ratio, word) in found.items():
        assert any({f"{ratio:.3f}"} <= set(line.split()) and line.rstrip().endswith(word) for line in printed)
        assert any({at, f"{ratio:.3f}", word} <= {re.sub("<.*?>", "", cell) for cell in row} for row in rows)
        assert re.search(f": {ratio:.3f} times the speed, {word}(\n|</)", junit)
    sentence = bench_views.view(record).sentence
    assert all(sentence in html.unescape(text) for text in (page, junit) if found)
    monitored: dict[str, list[object]] = {}
    for family in text_string_to_metric_families(bench_views.prometheus(record)):
        for sample in family.samples:
            at = sample.labels.get("size_bytes") or sample.labels["np"]
            if family.name == "clusterctl_bench_speed_ratio":
                monitored.setdefault(at, []).insert(0, sample.value)
            elif family.name == "clusterctl_bench_comparison":
                assert (sample.value, sample.labels["against"]) == (1, record.result.variants[0].name)
                monitored.setdefault(at, []).append(sample.labels["word"])
    assert {at: tuple(one) for at, one in monitored.items()} == found


def test_junit_of_a_comparison_below_its_baseline_has_the_ratios() -> None:
    whole = repeated("20260101T000000Z-bench-0001").document
    record = from_document({**whole, "status": "below-baseline"})
    junit = bench_views.junit(record)
    assert junit.count("<failure") == 2
    assert "1 MiB: 1.250 times the speed, undecided" in junit
