"""The terminal, the page, CSV, Prometheus and JUnit show the same figures of one run, because all show one view."""

from __future__ import annotations

import csv
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
                ratio=1 / by, noise=0.05, word=None if name == "nccl" else "faster",
            )
            for size, time in sizes
        ]  # fmt: skip
        joules = bench_documents.spread(*(0.8125 * by * off for off in OFF))
        spent = [{"np": 4, "per": "GB", "joules": joules, "reason": None}]
        variants.append(bench_documents.variant(name, rows=rows, repeats=3, library=name, energy=spent))
    return from_document(bench_documents.document(run, *variants))


RECORDS = {
    "a sweep": lambda run: collective(run=run),
    "a training": lambda run: slow_rank_training(run=run, joules=105),
    "repeated variants": repeated,
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
    assert (
        len(found) == {"all_reduce": 2 * (record.result.repeats > 1), "resnet50": 4}[record.result.benchmark]
    )
