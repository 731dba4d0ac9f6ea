"""Rows run on this machine as on a node: what hangs or prints rubbish fails with a reason, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from case_facts import facts_of
from hostile_texts import VARIANTS, texts

from clusterctl.acceptance import catalog
from clusterctl.acceptance.checked import NodeDevices
from clusterctl.acceptance.engine import AcceptEngine, EngineSettings
from clusterctl.acceptance.model import (
    AcceptRow,
    NodeProgram,
    PairProgram,
    Parsed,
    RowCommand,
    RowFinding,
    RowMeasurement,
    RowOutcome,
    RowStatus,
    RowTool,
    Tier,
)
from clusterctl.acceptance.on_node import ReadyNode, write_log
from clusterctl.acceptance.outcomes import OutcomeFile
from clusterctl.cli import console
from clusterctl.cli import main as cli
from clusterctl.cli.accept import run as accept_run
from clusterctl.facts.model.launch import Executable
from clusterctl.inventory.model import Node
from clusterctl.text.foreign import NotUnderstood, decimal
from clusterctl.transport.base import Completed


def value_of(text):
    for line in text.splitlines():
        if line.startswith("value "):
            return Parsed((RowMeasurement("speed", decimal(line.split()[1]), "MB/s", True),))
    raise NotUnderstood("a line with a value is missing")


def row(name, script, *tools, deadline_s=30.0, tier=Tier.VALIDATION):
    work = NodeProgram(lambda _: RowCommand(("sh", "-c", script)), value_of, deadline_s, tools)
    return AcceptRow(name, f"the row {name}", tier, work)


@pytest.fixture
def accept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)

    def run(rows, *arguments):
        monkeypatch.setattr(catalog, "ROWS", tuple(rows))
        status = cli.main(["accept", *arguments, "--json"])
        said = capsys.readouterr()
        assert said.out, said.err
        document = json.loads(said.out)
        found = {row["row"]: row for node in document["nodes"] for row in node["rows"]}
        return status, found, document

    yield run
    left = []
    for path in Path("/tmp").glob("clusterctl-*/lease"):
        with contextlib.suppress(FileNotFoundError):  # another test's run has ended
            left += [path] if f" {os.getpid()} " in path.read_text() else []
    assert left == []


def test_every_fault_of_a_program_is_a_row_with_a_reason(accept, tmp_path):
    rows = [
        row("good", "echo here >file; echo value 12.5; pwd"),
        row("hangs", "touch half-made; sleep 100", deadline_s=1.0),
        row("killed", "kill -9 $$"),
        row("rubbish", r"printf '\033[2Jnonsense\n'"),
        row("endless", "yes"),
        row("broken", "echo 'cannot open device' >&2; exit 3"),
        row("missing", "true", RowTool("no-such-program", "install it")),
        row("huge", "echo value 1e999"),
        row(
            "nccl",
            "echo 'n1:1:2 [0] allocator.cc:79 NCCL WARN Cuda failure 711 peer mapping resources exhausted'\n"
            "echo ' .. n1 pid 3018: Test failure common.cu:937'; exit 3",
        ),
    ]
    status, found, document = accept(rows)
    reasons = {name: one["reason"] for name, one in found.items()}
    assert status == 1 and document["accepted"] == []
    assert found["good"]["status"] == "measured" and found["good"]["values"][0]["value"] == 12.5
    assert reasons["hangs"] == "it did not end within 1 s, and was ended"
    assert reasons["killed"].startswith("it was killed by signal 9")
    assert reasons["rubbish"] == "its output cannot be read: a line with a value is missing"
    assert "wrote more than" in reasons["endless"]
    assert reasons["broken"] == "it ended with exit status 3: cannot open device"
    assert reasons["nccl"] == (
        "it ended with exit status 3: NCCL WARN Cuda failure 711 peer mapping resources exhausted"
    )
    assert reasons["missing"] == "no-such-program not found: install it"
    assert reasons["huge"].startswith("its output cannot be read: expected a finite decimal number")
    fails = {name for name, one in found.items() if one["status"] == "fail"}
    assert fails == {"hangs", "killed", "rubbish", "endless", "broken", "huge", "nccl"}
    path = tmp_path / "runs" / document["run"] / found["broken"]["log"]
    assert path.stat().st_mode & 0o777 == 0o600
    log = path.read_text()
    assert "cannot open device" in log and "exit status 3" in log


UMASKS = (0, 0o002, 0o022, 0o027, 0o077, 0o177, 0o777)


@pytest.mark.parametrize("text", list(texts(" token=s3cret ")), ids=range(VARIANTS))
def test_a_log_is_its_owners_alone_whatever_was_printed_and_stood_there(tmp_path, text):
    """With every umask; over a file, a link and a pipe of another run, which are replaced and not written to."""
    umask = UMASKS[len(text) % len(UMASKS)]
    printed = text.encode(errors="surrogatepass")
    other = tmp_path / "other"
    other.write_text("other")
    for stands in ("nothing", "file", "link", "pipe"):
        logs = tmp_path / stands
        (logs / "gemm").mkdir(parents=True)
        path = logs / "gemm" / "gpu01.log"
        if stands == "file":
            path.write_text("old")
            path.chmod(0o644)
        elif stands == "link":
            path.symlink_to(other)
        elif stands == "pipe":
            os.mkfifo(path)
        before = os.umask(umask)
        try:
            done = Completed(("x",), 3, printed, printed, 0.1)
            name = write_log(logs, RowOutcome("gpu01", "gemm"), RowCommand(("x", "--y")), done)
        finally:
            os.umask(before)
        assert name == f"{stands}/gemm/gpu01.log"
        assert stat.S_ISREG(path.lstat().st_mode) and path.stat().st_mode & 0o7777 == 0o600
        log = path.read_text()
        assert log.startswith("$ x --y\n") and log.endswith("exit status 3\n") and "s3cret" not in log
    assert other.read_text() == "other"


def test_a_row_that_could_not_run_is_run_by_resume_and_the_others_are_kept(accept, tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "measure-it"
    rows = [
        row("first", f"echo x >>{tmp_path}/times; echo value 1"),
        row("needs-tool", "measure-it", RowTool("measure-it", "install it")),
    ]
    status, found, document = accept(rows)
    assert (status, found["needs-tool"]["status"]) == (1, "not-run")
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho measure-it 2.0; echo value 7\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    status, found, again = accept(rows, "--resume", document["run"])
    assert again["run"] == document["run"]
    assert (status, found["needs-tool"]["status"], found["needs-tool"]["tool"]) == (
        0,
        "measured",
        "measure-it 2.0",
    )
    assert (tmp_path / "times").read_text() == "x\n"


def test_a_run_that_goes_on_keeps_the_thresholds_of_its_site(accept, tmp_path, capsys):
    """Although their file has changed meanwhile; other ones replace them for good."""
    rows = [row("first", "echo value 4"), row("needs-tool", "true", RowTool("no-such-program", "install it"))]

    def site(name, least):
        rules = f"rules: [{{when: first.speed < {least}, verdict: fail, source: the contract}}]\n"
        (tmp_path / name).write_text(rules)
        return str(tmp_path / name)

    *_, begun = accept(rows, "--thresholds", site("site.yaml", 5))
    site("site.yaml", 3)
    resume = ("--resume", begun["run"])
    for words, name, least in (
        (resume, "site.yaml", "5"),
        ((*resume, "--thresholds", site("other.yaml", 6)), "other.yaml", "6"),
        (resume, "other.yaml", "6"),
    ):
        _, found, document = accept(rows, *words)
        (value,) = found["first"]["values"]
        assert (found["first"]["status"], value["limit"]) == ("fail", f">= {least}"), words
        assert document["site_thresholds"] == str(tmp_path / name)
    (tmp_path / "runs" / begun["run"] / "thresholds.json").write_text('{"rules": 1}')
    assert cli.main(["accept", *resume]) == 3
    assert f"run {begun['run']} is damaged: rules: expected a list, not 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("second", "status", "reason", "again"),
    [
        ("value a 10; value b 9.9", "ok", "", [10.0, 9.9]),
        ("value a 10; value b 1", "warn", "b: speed 1 MB/s, not >= 9.2, 90% below 10", [10.0, 1.0]),
        ("value a 10", "warn", "b: speed 1 MB/s, not >= 9.2, 90% below 10", [10.0, None]),
        ("fail no round ended", "fail", "measured again: no round ended", [None, None]),
        ("value a 10; value b 9.9; warn clock throttled", "warn", "clock throttled", [10.0, 9.9]),
        (
            "",
            "fail",
            "measured again: its output cannot be read: neither a value nor a finding",
            [None, None],
        ),
    ],
)
def test_what_a_second_measurement_finds_counts(accept, tmp_path, monkeypatch, second, status, reason, again):
    devices = NodeDevices(0, frozenset({"a", "b"}))  # which this machine does not have
    monkeypatch.setattr(NodeDevices, "of", lambda _facts: devices)

    def parse(text):
        values, findings = [], []
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "value":
                device, _, number = rest.partition(" ")
                values.append(RowMeasurement("speed", decimal(number), "MB/s", True, device=device))
            else:
                findings.append(RowFinding(RowStatus(word), rest))
        if not values and not findings:
            raise NotUnderstood("neither a value nor a finding")
        return Parsed(tuple(values), findings=tuple(findings))

    for number, said in enumerate(("value a 10; value b 1", second)):
        (tmp_path / str(number)).write_text(said.replace("; ", "\n"))
    script = (
        f"cat {tmp_path}/$(ls {tmp_path}/ran* 2>/dev/null | wc -l); mktemp {tmp_path}/ran.XXXXXX >/dev/null"
    )
    two = AcceptRow(
        "two", "two devices", Tier.VALIDATION,
        NodeProgram(lambda _: RowCommand(("sh", "-c", script)), parse, 30.0),
    )  # fmt: skip
    _, found, _ = accept([two])
    one = found["two"]
    assert (one["status"], one["reason"], [v["again"] for v in one["values"]]) == (status, reason, again)
    assert len(list(tmp_path.glob("ran*"))) == 2


def test_a_soak_keeps_the_first_failure(accept, tmp_path, monkeypatch):
    """By a clock of its own, on which every repeat takes ten seconds: a busy machine manages few of them."""
    times = tmp_path / "times"

    def now():
        return 1e9 + 10 * (times.read_text().count("x") if times.exists() else 0)

    monkeypatch.setattr(accept_run, "time", SimpleNamespace(time=now, monotonic=now))
    count = f"echo x >>{tmp_path}/times; n=$(wc -l <{tmp_path}/times)"
    soak = row(
        "soak", f"{count}; [ $n != 2 ] || {{ echo 'bad sum' >&2; exit 1; }}; echo value $n", tier=Tier.STRESS
    )
    status, found, document = accept([soak], "--for", "25s")
    one = found["soak"]
    assert status == 1 and document["repeats"] == one["repeats"] == 4
    assert (one["status"], one["repeat"], one["reason"]) == (
        "fail",
        1,
        "it ended with exit status 1: bad sum",
    )
    assert len(times.read_text().splitlines()) == one["repeats"]


def test_a_soak_of_which_no_row_can_run_ends_at_once(accept):
    soak = row("soak", "true", RowTool("no-such-program", "install it"), tier=Tier.STRESS)
    status, found, document = accept([soak], "--for", "1h")
    assert (status, found["soak"]["status"], document["repeats"]) == (1, "not-run", 2)


def test_a_row_between_nodes_has_a_server_and_a_client(accept, tmp_path):
    fifo = tmp_path / "wire"
    pair = PairProgram(
        server=lambda place: RowCommand(("sh", "-c", f"mkfifo {fifo}; echo value 3 >{fifo}")),
        client=lambda place: RowCommand(
            ("sh", "-c", f"until [ -p {fifo} ]; do sleep 0.02; done; cat {fifo}; echo {place.peer}")
        ),
        parse=value_of,
        deadline_s=30.0,
    )
    status, found, _ = accept([AcceptRow("pair", "a pair", Tier.PERFORMANCE, pair)])
    assert (status, found["pair"]["status"], found["pair"]["values"][0]["value"]) == (0, "measured", 3.0)


def test_a_row_of_two_nodes_never_measures_one_with_itself(accept, tmp_path):
    never = PairProgram(lambda _: RowCommand(("false",)), lambda _: RowCommand(("false",)), value_of, 30.0)
    streams = AcceptRow(
        "streams", "two nodes", Tier.PERFORMANCE, replace(never, tools=(RowTool("iperf3", "install it"),)),
        hardware=lambda _: "TCP", least_nodes=2,
    )  # fmt: skip
    alone = replace(streams, work=never)
    _, found, _ = accept([row("fine", "echo value 1"), alone])
    assert (found["streams"]["status"], found["streams"]["reason"]) == ("not-applicable", "it takes 2 nodes")

    outcomes = OutcomeFile(tmp_path)
    nodes = [Node(name=name, address=name) for name in ("a", "b", "c")]
    settings = EngineSettings(fanout=2, probe_timeout_s=1.0, escalate=False, known_hosts=None)
    engine = AcceptEngine(nodes, lambda node: pytest.fail(node.name), settings, [streams], outcomes, tmp_path)
    for node, tools in zip(nodes[:2], ({"iperf3": Executable("/usr/bin/iperf3")}, {}), strict=True):
        facts = replace(facts_of({}), tool_versions=tools)
        engine.ready[node.name] = ReadyNode(node, facts, "/tmp/none", "token", len(nodes))
    engine.run([streams])
    assert {one.node: one.not_run for one in outcomes.all} == {
        "a": "no other node can run it", "b": "iperf3 not found: install it",
    }  # fmt: skip


def test_unknown_rows_and_useless_repeats_are_refused_before_a_node_is_contacted(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["--only", "dsk"], "did you mean disk?"),
        (["--for", "10m", "--tier", "sanity"], "--for repeats the rows of the tier stress"),
        (["--for", "10x"], "--for '10x' is not a time"),
        (["--resume", "latest", "--tier", "sanity"], "--resume uses the inventory and the rows"),
    ):
        assert cli.main(["accept", *words]) == 2
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def hollow(load=Tier.PERFORMANCE):
    """Return a row that a node can run, and one that no node can."""
    missing = RowTool("no-such-program", "install it")
    return [row("load", "echo value 3", tier=load), row("soak", "true", missing, tier=Tier.PERFORMANCE)]


def test_a_script_ends_before_the_load_if_no_node_can_be_accepted(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(catalog, "ROWS", tuple(hollow()))
    assert cli.main(["accept"]) == 1
    said = capsys.readouterr()
    assert "note: 1 row (soak) cannot run on localhost: no-such-program not found: install it" in said.err
    assert (
        "error: no node can be accepted, because these rows cannot run: soak; no node was loaded" in said.err
    )
    assert "hint: install what they need, or leave them out: --skip soak" in said.err
    assert said.out == "" and not list((tmp_path / "runs").glob("*/results.json"))


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_the_person_decides(accept, monkeypatch, capsys, answer):
    asked = []
    monkeypatch.setattr(console, "is_attended", lambda: True)
    monkeypatch.setattr("clusterctl.cli.terminal.interrupt.asked", lambda text: asked.append(text) or answer)
    if answer:
        code, found, _ = accept(hollow())
        assert (code, found["load"]["status"], found["soak"]["status"]) == (1, "measured", "not-run")
    else:
        monkeypatch.setattr(catalog, "ROWS", tuple(hollow()))
        assert cli.main(["accept"]) == 1
        assert "no node was loaded" in capsys.readouterr().err
    assert asked == [
        "no node can be accepted, because these rows cannot run: soak. Measure the others anyway?"
    ]


def test_rows_without_load_run_whatever_is_missing(accept):
    code, found, _ = accept(hollow(load=Tier.SANITY))
    assert (code, found["load"]["status"], found["soak"]["status"]) == (1, "measured", "not-run")
