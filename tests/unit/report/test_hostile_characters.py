"""No report, document or message passes on what a terminal acts on, or what turns the direction of text."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path

import bench_views
import pytest
import yaml
from result_documents import collective

from clusterctl import log
from clusterctl.cli import console
from clusterctl.documents.check import Check
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.errors import InventoryError
from clusterctl.inventory import load
from clusterctl.report import junit, prometheus
from clusterctl.report.check_document import document_of
from clusterctl.report.text import of_view
from clusterctl.requirements.base import Decision, Status
from clusterctl.results.record import Record
from clusterctl.rundir import RunDir
from clusterctl.text import json_text
from clusterctl.text.visible import ACTING, visible
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import check, run_list

ACTORS = (
    "\x1b\x07\x9b\x85\x90\x7f\r\x08"
    "\u061c\u200b\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u2069\ufeff\ufffa\U000e0041"
)
HOSTILE = "".join(f"a{one}b" for one in ACTORS)


def verdicts() -> HostMap[tuple[Decision, ...]]:
    verdict = Decision("acs", Status.UNMET, HOSTILE)
    met = Decision("peermem", Status.MET, HOSTILE, warnings=(HOSTILE,))
    return HostMap({"n1": (verdict, met), "n2": Failure(FailureKind.ERROR, HOSTILE, HOSTILE)})


def checked() -> Check:
    return document_of(verdicts())


def record() -> Record:
    good = collective("crashed-without-summary")
    document = json.loads(json.dumps(good.document))
    document["benchmark"] = document["launcher"] = document["variants"][0]["library"] = HOSTILE
    document["proof"]["failures"] = [
        {"kind": "rank-died", "message": HOSTILE, "hint": HOSTILE, "node": HOSTILE, "rank": 0}
    ]
    summary = good.summary.model_copy(
        update={"benchmark": HOSTILE, "library": HOSTILE, "hardware": HOSTILE, "unit": HOSTILE}
    )
    return Record(summary, document, (HOSTILE,))


def listed() -> ListedRun:
    """Return the line of the record's run in a list; its label comes from a person, the rest from documents."""
    summary = record().summary
    return ListedRun(
        run=summary.run, verb="bench", started_at=summary.started_at, nodes=(str(summary.hardware),),
        outcome=RunOutcome.OK, detail=str(summary.hardware), label=summary.benchmark, folder="",
    )  # fmt: skip


REPORTS: dict[str, Callable[[], str]] = {
    "check junit": lambda: junit.render("check", check.view(checked()).suites()),
    "check prometheus": lambda: prometheus.render(check.view(checked()).metrics()),
    "check json": lambda: json_text.indented(checked().document()).decode(),
    "bench junit": lambda: bench_views.junit(record()),
    "bench prometheus": lambda: bench_views.prometheus(record()),
    "bench csv": lambda: bench_views.csv(record()).replace("\r\n", "\n"),
    "bench html": lambda: bench_views.page(record()),
    "export json": lambda: json_text.in_ascii(record().exported().model_dump(mode="json"), indent=1),
    "list": lambda: visible(of_view.render(run_list.view([listed()]))),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_no_report_passes_them_on(report: Callable[[], str]) -> None:
    text = report()
    assert not ACTING.search(text), ascii(ACTING.search(text))


def test_csv_has_one_line_per_row() -> None:
    rows = list(csv.reader(io.StringIO(bench_views.csv(record()))))
    assert len({len(row) for row in rows}) == 1


def test_no_file_of_a_run_folder_passes_them_on_and_all_read_the_same(tmp_path: Path) -> None:
    run = RunDir.create("check", tmp_path)
    path = run.write("report", {"reason": HOSTILE, "é": "µ"})
    assert not ACTING.search(path.read_text(encoding="utf-8"))
    assert run.read("report") == {"reason": HOSTILE, "é": "µ"}


def test_no_message_passes_them_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.configure(0, console.error)
    try:
        logging.getLogger("clusterctl.test").warning("node: %s", HOSTILE)
    finally:
        logging.getLogger("clusterctl").handlers.clear()
    console.talk(HOSTILE)
    console.data(HOSTILE)
    console.emit_json({"a": HOSTILE})
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert console.confirm(HOSTILE)
    out, err = capsys.readouterr()
    assert "node: " in err and not ACTING.search(out + err)


@pytest.mark.parametrize("actor", ACTORS, ids=ascii)
def test_an_inventory_with_one_is_refused(actor: str) -> None:
    text = yaml.safe_dump({"version": 1, "nodes": [{"name": "a", "env": {"A": f"x{actor}y"}}]})
    with pytest.raises(InventoryError):
        load.from_text(text, "x.yaml", Path())
