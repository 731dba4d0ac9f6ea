"""The first sentence of eight sample results has what the next command needs, and the page on it shows each of them.

A reader who sees the sentence alone must be able to type the command: each of its words but the verb and its inventory
is in the sentence.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_documents as documents
import pytest
from locate_documents import document as located
from result_documents import collective
from sample_acceptance import sample_acceptance
from sample_fleet import sample_fleet

from clusterctl.cli.check import output
from clusterctl.report.view import View
from clusterctl.results.record import from_document
from clusterctl.text import typed_inventory
from clusterctl.views import accept, bench, locate

PAGE = Path(__file__).parents[3] / "docs/decisions/0025-six-words-and-one-sentence.md"
RUN = "20261124T120000Z-bench-0001"
ON_CPUS = [{"rank": 0, "host": "n1", "pid": 1, "device": "cpu"}]


def shown(*variants: dict[str, Any], **more: Any) -> View:
    return bench.view(from_document(documents.document(RUN, *variants, **more)), for_page=True)


def compared() -> View:
    """Return three interleaved repeats of two libraries, whose ranges do not touch."""
    first, other = (
        documents.variant(
            name, library=name, repeats=3,
            rows=[documents.row(1024, tuple(by * t for t in (8.0, 10.0, 12.0)), (1.0, 1.0, 1.0), **of_first)],
        )
        for name, by, of_first in (
            ("nccl", 1.0, {}), ("ccore", 0.5, {"ratio": 2.0, "word": "undecided", "repeats_needed": 7}),
        )
    )  # fmt: skip
    return shown(first, other)


def scaled() -> View:
    points = [documents.point(1, 15.9, efficiency=1.0), documents.point(4, 15.4, efficiency=0.2428)]
    return shown(documents.variant(points=points), benchmark="resnet50", ranks=ON_CPUS)


def failed() -> View:
    with typed_inventory.named(Path("fleet.yaml")):
        hint = typed_inventory.filled("run clusterctl bootstrap INVENTORY --only mpi")
    fault = {"kind": "missing-program", "message": "gpu03: Open MPI not found", "node": "gpu03", "hint": hint}
    return shown(documents.variant(), status="failed", failures=[fault])


SAMPLES: dict[str, tuple[Callable[[], View], str]] = {
    "check of 64 nodes": (lambda: output.view(sample_fleet(64), (), for_page=True), "clusterctl bootstrap"),
    "accept of 8 nodes": (
        lambda: accept.view(sample_acceptance()), "clusterctl bench --limit 'gpu[01-02,06-07]'",
    ),
    "locate, a slow rail": (
        lambda: locate.view(located(6, 2, bad={(2, 1): 0.3})), "clusterctl bench --limit '!n3'",
    ),
    "locate, two groups": (
        lambda: locate.view(located(8, bad={(node, 0): 0.3 for node in range(4)})),
        "clusterctl bench --limit 'n[1-4]'",
    ),
    "all_reduce on four H200": (
        lambda: bench.view(collective(), for_page=True), "clusterctl runs baseline record NAME",
    ),
    "nccl against ccore": (compared, "clusterctl bench --compare nccl,ccore --repeats 7"),
    "ResNet50 on 1 and 4 ranks": (scaled, "clusterctl bench --collective all_reduce"),
    "a launch that failed": (failed, "clusterctl bootstrap fleet.yaml --only mpi"),
}  # fmt: skip
TYPED_BEFORE = ("clusterctl", "bench", "--limit", "--compare", "nccl,ccore")
"""The words of the command that was just typed; each command of a fleet takes ``--limit``."""


@pytest.mark.parametrize("name", SAMPLES)
def test_the_sentence_alone_has_what_the_next_command_needs(name: str) -> None:
    make, command = SAMPLES[name]
    sentence = make().sentence
    missing = [word for word in shlex.split(command) if word not in TYPED_BEFORE and word not in sentence]
    assert missing == [], sentence
    # The page has the sentence and the command. The longest sentence has five findings on five nodes.
    rows = re.findall(r"^\| (.*?) \| (.*?) \| `(.*?)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert (name, sentence, command) in rows, sentence
    assert len(sentence.split()) <= 52, sentence
