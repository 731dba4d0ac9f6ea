"""The launch of a library of others: what is preloaded and set, and what the inventory may change."""

from dataclasses import replace

import pytest

from clusterctl.errors import UsageError
from clusterctl.facts.model.python import InstalledLibrary
from clusterctl.inventory.model import Node
from clusterctl.launch import foreign_library
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.plan import plan
from clusterctl.launch.readiness import assumed
from clusterctl.launch.request import Request
from clusterctl.workloads import foreign_library as rank


def launched(library, *, env=None, path="/opt/x/aiacc_nccl"):
    request = Request(None, {}, None, None, library, "openmpi", None, 60.0)
    nodes = [Node(name=name, address=name, gpus=2, env=env or {}) for name in ("a", "b")]
    answers = [replace(assumed(node), library=InstalledLibrary("2.0.0", path)) for node in nodes]
    planned = plan(request, answers, SHOWN)
    (launch,) = planned.launches()
    return planned, dict(launch.env), launch.program


def test_aiacc_is_preloaded_logs_its_proof_and_downloads_no_code():
    planned, env, program = launched("aiacc")
    assert env["LD_PRELOAD"] == "/opt/x/aiacc_nccl/libnccl.so.2"
    assert env["AIACC_UPDATE_ALGO_DISABLE"] == "1"
    assert env["NCCL_DEBUG"] == "INFO"
    assert "INIT" in env["NCCL_DEBUG_SUBSYS"].split(",")
    # The torch program reports what is mapped; nccl-tests does not.
    assert planned.program.torch
    assert program[program.index("--backend") + 1] == "nccl"
    assert planned.unmet() == ()


def test_the_inventory_takes_precedence():
    _, env, _ = launched("aiacc", env={"AIACC_UPDATE_ALGO_DISABLE": "0"})
    assert env["AIACC_UPDATE_ALGO_DISABLE"] == "0"


def test_ranks_are_told_what_to_import_in_a_form_that_every_launcher_passes_on():
    _, env, program = launched("accl")
    assert env["ACCL_LOG_LEVEL"] == "INFO"
    assert "LD_PRELOAD" not in env
    assert program[program.index("--backend") + 1] == "accl"
    assert not set(env[rank.VARIABLE]) & set(" ,;\"'\\{}")


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (
            "accl",
            "published packages are for torch 1.8 to 1.10, and bench needs 2.4 or newer: run your own script",
        ),
        (
            "lightcc",
            "published packages are for torch 1.11, and bench needs 2.4 or newer: run your own script",
        ),
        ("aiacc", "image build --library aiacc, up and bench --containers measure in an image"),
    ],
)
def test_a_missing_library_is_not_recommended_where_no_published_package_fits_bench(library, words):
    why, hint = foreign_library.missing(library, None, "/usr/bin/python3")
    assert "is not installed for /usr/bin/python3" in why
    assert words in hint


def test_a_library_that_nodes_have_in_different_places_is_not_preloaded_from_one_of_them():
    request = Request(None, {}, None, None, "aiacc", "openmpi", None, 60.0)
    answers = [
        replace(assumed(Node(name=path, address=path, gpus=1)), library=InstalledLibrary("2.0.0", f"/{path}"))
        for path in ("a", "b")
    ]
    with pytest.raises(UsageError, match="is in different directories"):
        plan(request, answers, SHOWN).launches()
