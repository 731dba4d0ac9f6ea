"""What real runs leave: a run folder, a page and JUnit XML when asked for, and no secret in any of them."""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from junitparser import JUnitXml

from clusterctl.results import folders
from clusterctl.runs.index import FILE

SWEEP = ("bench", "-np", "2", "-b", "1K", "-e", "64K", "-n", "2", "-w", "1", "--launcher", "local")
HERE = {"name": "here", "address": "localhost", "connection": "local", "python": sys.executable}
CANARIES = ("canaryHfToken", "canaryApiKey", "canaryProxyLogin")
VISIBLE = "not-a-secret-4711"


@pytest.fixture
def inventory(tmp_path):
    """This machine, with variables that are secrets by their names or values."""
    env = {
        "HF_TOKEN": CANARIES[0], "WANDB_API_KEY": CANARIES[1], "https_proxy": f"http://me:{CANARIES[2]}@proxy:3128",
        "PLAIN": VISIBLE,
    }  # fmt: skip
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "nodes": [{**HERE, "env": env}]}))
    return path


def test_a_run_is_stored_and_has_its_page_and_no_secret_anywhere(run_clusterctl, tmp_path, inventory):
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    done = run_clusterctl(*SWEEP, "-i", str(inventory), "--html", str(page), "--junit", str(junit), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    record = folders.named("latest", tmp_path / "runs")
    assert record.document == document
    assert record.summary.np == 2 and record.summary.figure and record.commands
    assert record.summary.key
    assert f"run <code>{document['run']}</code>" in page.read_text()
    assert (JUnitXml.fromfile(str(junit)).tests, JUnitXml.fromfile(str(junit)).failures) == (1, 0)
    said = done.stdout + done.stderr
    for kind in ("json", "csv", "prometheus", "junit"):
        said += run_clusterctl("runs", "export", "--format", kind).stdout
    listed = run_clusterctl("runs", "list", "--benchmark", "all_reduce")
    assert document["run"] in listed.stdout
    said += (
        listed.stdout
        + run_clusterctl("runs", "show", "latest", "--html", str(tmp_path / "shown.html")).stdout
    )
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != inventory}
    for canary in CANARIES:
        assert canary not in said
        assert not [path for path, data in files.items() if canary.encode() in data], canary
    assert [path for path, data in files.items() if VISIBLE.encode() in data], (
        "the search finds nothing at all"
    )
    assert (tmp_path / "runs" / FILE).stat().st_mode & 0o777 == 0o600


def test_a_run_that_failed_is_stored_with_why(run_clusterctl, tmp_path):
    program = tmp_path / "all_reduce_perf"
    program.write_text("#!/bin/sh\necho out of memory >&2\nexit 3\n")
    program.chmod(0o755)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(yaml.safe_dump({"version": 1, "nodes": [{**HERE, "all_reduce_perf": str(program)}]}))
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    done = run_clusterctl(*SWEEP, "-i", str(inventory), "--html", str(page), "--junit", str(junit))
    assert done.returncode == 10, done.stderr
    summary = folders.named("latest", tmp_path / "runs").summary
    assert summary.status == "failed" and summary.benchmark == "all_reduce"
    assert "What went wrong" in page.read_text() and "rank-died" in page.read_text()
    assert JUnitXml.fromfile(str(junit)).failures >= 1


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_report_that_could_not_be_written_is_refused_before_anything_runs(run_clusterctl, tmp_path, option):
    done = run_clusterctl(*SWEEP, option, str(tmp_path / "none" / "file"))
    assert done.returncode == 3 and "directory is missing or not writable" in done.stderr
    assert not (tmp_path / "runs").exists()
