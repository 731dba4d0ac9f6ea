"""``requirements list`` and ``show``: every requirement in words, within the width of the terminal."""

from __future__ import annotations

import json

import pytest

from clusterctl.cli import main
from clusterctl.inventory.field_types import REQUIREMENT_NAMES
from clusterctl.report.requirements_document import document_of
from clusterctl.report.text import of_view
from clusterctl.views import requirements


@pytest.mark.parametrize("width", [80, 120, 200])
def test_all_texts_fit_into_a_terminal(width: int) -> None:
    described = document_of(REQUIREMENT_NAMES)["requirements"]
    lines = of_view.render(requirements.listing(described), width).splitlines()
    assert [line.split()[0] for line in lines[1:] if line[0] != " "] == list(REQUIREMENT_NAMES)
    lines += of_view.render(requirements.pages(described), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("`" in line for line in lines)


def test_show_tells_what_why_how_and_where() -> None:
    described = document_of(["memlock"])["requirements"]
    assert of_view.render(requirements.pages(described)).splitlines() == [
        "memlock: SSH sessions may lock enough memory",
        (
            "  met when   a new, non-interactive SSH session may lock unlimited memory, on nodes with RDMA devices or "
            "GPUs; a number of KiB in the inventory on every node"
        ),
        (
            "  why        ranks that use RDMA lock the memory that they register; with the usual limit of 8 MiB"
            " registration fails, and NCCL falls back to TCP sockets without an error"
        ),
        "  bootstrap  writes a file in limits.d and a drop-in for sshd",
        "  undo       restores both files, and restarts sshd",
        "  inventory  requirements.memlock: unlimited or integer above 0 (default unlimited)",
        "               KiB of memory that a process in a non-interactive SSH session may lock.",
        "             requirements.skip: [memlock] leaves this requirement out",
        "  page       docs/requirements/memlock.md",
    ]


def test_the_commands_print_what_was_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["requirements", "show", "docker", "memlock,docker", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in shown["requirements"]] == ["docker", "memlock"]
    assert "requirements.packages.mirror" in [one["key"] for one in shown["requirements"][0]["settings"]]
    assert main.main(["requirements", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(REQUIREMENT_NAMES) + 1


def test_a_name_with_a_typo_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["requirements", "show", "memlok"]) == 2
    assert "did you mean memlock?" in capsys.readouterr().err
