"""What the forms of ``bench`` show of records, or of results as ``bench`` would record them."""

from __future__ import annotations

from clusterctl.documents.bench import BenchResult
from clusterctl.report.html import of_view as html
from clusterctl.report.text import of_view
from clusterctl.report.view import View
from clusterctl.results.comparison import compare
from clusterctl.results.record import Record, from_document
from clusterctl.views import bench, comparison


def view(found: BenchResult | Record) -> View:
    record = found if isinstance(found, Record) else from_document(found.document())
    return bench.view(record)


def text(found: BenchResult | Record) -> str:
    return of_view.render(view(found))


def page(record: Record) -> str:
    return html.render(bench.view(record, for_page=True))


def csv(*records: Record) -> str:
    return bench.form("csv", [bench.view(record) for record in records])


def junit(*records: Record) -> str:
    return bench.form("junit", [bench.view(record) for record in records])


def prometheus(*records: Record) -> str:
    return bench.form("prometheus", [bench.view(record) for record in records])


def compared(*records: Record, width: int | None = None) -> str:
    return of_view.render(comparison_view(*records), width)


def comparison_view(*records: Record) -> View:
    return comparison.view(compare(records), records)


def compared_page(*records: Record) -> str:
    return html.render(comparison_view(*records))
