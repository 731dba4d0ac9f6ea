"""Records among noise, and the outcome of every step that they add up to."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest

from clusterctl.apply import bootstrap, journal
from clusterctl.apply.execute import NodeOutcome, StepOutcome, apply_plan
from clusterctl.apply.journal import Options, RunJournal
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.apply.records import Event, JournalRecord, parse
from clusterctl.apply.rolling import Rolling
from clusterctl.apply.script import Header, new_nonce
from clusterctl.documents.apply import RunState
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.errors import ConfigError, PlanError
from clusterctl.requirements.steps import WriteFile
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Completed, Failure, FailureKind, TransportError

N = "00ff00ff00ff00ff"
PLAN = NodePlan("n", tuple(PlannedStep("t", WriteFile(f"step {i}", f"/x{i}", "")) for i in (1, 2, 3)))


def _line(number, event, detail=""):
    return f"@{{n}} {number} {event} {base64.b64encode(detail.encode()).decode()}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"@{N} 3 changed ", JournalRecord(3, Event.CHANGED)),
        (
            f"@{N} 3 failed {base64.b64encode(b'no: luck').decode()}",
            JournalRecord(3, Event.FAILED, "no: luck"),
        ),
        (
            f"@{N} 3 failed {base64.b64encode(b'cannot get https://me:secret@repo/x').decode()}",
            JournalRecord(3, Event.FAILED, "cannot get https://*********@repo/x"),
        ),
        (f"Welcome! @{N} 0 done \r", JournalRecord(0, Event.DONE)),
        (
            f"@{N} 1 failed {base64.b64encode(bytes([255])).decode()}",
            JournalRecord(1, Event.FAILED, "\ufffd"),
        ),
        ("@0000000000000000 3 changed ", None),
        (f"@{N} three changed ", None),
        (f"@{N} ² changed ", None),
        (f"@{N} 3 exploded ", None),
        (f"@{N} 3 failed !!!", None),
        (f"@{N}", None),
        ("", None),
    ],
)
def test_parse(line, expected):
    assert parse(line, N) == expected


class Wire:
    """A transport whose node prints the given lines, then ends, or is lost."""

    node = "n"

    def __init__(self, lines, *, lost=False, stderr=b"", returncode=0):
        self.lines, self.lost, self.stderr, self.returncode = lines, lost, stderr, returncode
        self.calls = []

    def run(self, argv, *, stdin=b"", timeout_s=None, as_root=False, env=None, on_line=None):
        self.calls.append((argv, as_root))
        nonce = stdin.decode().partition("NONCE=")[2][:16]
        for line in self.lines:
            on_line(line.format(n=nonce))
        if self.lost:
            raise TransportError(Failure(FailureKind.LOST, "the connection was lost", None))
        return Completed(argv, self.returncode, b"", self.stderr, 1.0)


def _apply(wire, record=lambda _: None):
    return apply_plan(wire, PLAN, Header("r", "o", new_nonce()), timeout_s=5, record=record)


def test_one_exec_as_root_and_each_step_has_its_outcome():
    wire = Wire(
        ["motd noise", _line(1, "begin"), _line(1, "changed"), _line(2, "unchanged"), _line(3, "begin"),
         _line(3, "note", "drifted"), _line(3, "failed", "why"), _line(0, "done")]
    )  # fmt: skip
    outcome = _apply(wire)
    assert wire.calls == [(("sh", "-s"), True)]
    assert [s.status for s in outcome.steps] == [
        AppliedStatus.CHANGED,
        AppliedStatus.UNCHANGED,
        AppliedStatus.FAILED,
    ]
    assert outcome.steps[2].reason == "why"
    assert outcome.steps[2].notes == ("drifted",)
    assert outcome.failure is None


def test_a_lost_connection_fails_the_step_at_hand_and_skips_the_rest():
    outcome = _apply(Wire([_line(1, "begin"), _line(1, "changed"), _line(2, "begin")], lost=True))
    assert [s.status for s in outcome.steps] == [
        AppliedStatus.CHANGED,
        AppliedStatus.FAILED,
        AppliedStatus.SKIPPED,
    ]
    assert "the connection was lost" in outcome.steps[1].reason
    assert outcome.failure.kind is FailureKind.LOST


def test_a_runner_that_ends_without_its_last_word_is_no_success():
    outcome = _apply(Wire([_line(1, "begin")], stderr=b"sh: killed", returncode=137))
    assert outcome.failure.kind is FailureKind.LOST
    assert "137" in outcome.failure.message
    assert "sh: killed" in outcome.failure.message
    assert {s.status for s in outcome.steps} == {AppliedStatus.FAILED, AppliedStatus.SKIPPED}


def test_silence_with_exit_status_0_is_no_success():
    assert _apply(Wire([])).failure is not None


def test_a_refusal_is_the_nodes_failure():
    outcome = _apply(Wire([_line(0, "refused", "busy: bootstrap of alice since 20 s")]))
    assert outcome.failure.message == "busy: bootstrap of alice since 20 s"
    assert {s.status for s in outcome.steps} == {AppliedStatus.SKIPPED}


@pytest.mark.parametrize(
    ("word", "detail"), [("=abc-1.2_", "abc-1.2_"), ("ZG9uZSBrMw==", "done k3"), ("=", ""), ("a=b", None)]
)
def test_a_detail_is_a_plain_word_behind_an_equals_sign_or_base64(word, detail):
    found = parse(f"@nonce 0 start {word}", "nonce")
    assert (found and found.detail) == detail


def test_the_run_folder_has_every_record_before_the_next_is_read(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    seen = []

    class Watching(Wire):
        def run(self, argv, **kwargs):
            inner = kwargs["on_line"]

            def on_line(line):
                inner(line)
                seen.append(len((run.path / "apply.journal.jsonl").read_text().splitlines()))

            return super().run(argv, **{**kwargs, "on_line": on_line})

    with RunJournal(run) as writer:
        _apply(
            Watching([_line(1, "begin"), _line(1, "changed"), _line(0, "done")]),
            lambda record: writer.add("n", "k", record),
        )
    assert seen == [1, 2, 3]
    entries = [json.loads(line) for line in (run.path / "apply.journal.jsonl").read_text().splitlines()]
    assert [e["event"] for e in entries] == ["begin", "changed", "done"]


def test_records_of_many_nodes_share_flushes_and_none_goes_on_before_its_own_is_on_disk(
    tmp_path, monkeypatch
):
    run = RunDir.create("bootstrap", tmp_path)
    path = run.path / "apply.journal.jsonl"
    nodes, each = 16, 10
    on_disk, flushes, early = 0, 0, []
    first = threading.Barrier(nodes)

    def slow_fsync(handle):
        nonlocal on_disk, flushes
        size = path.stat().st_size
        time.sleep(0.005)
        on_disk, flushes = size, flushes + 1

    with RunJournal(run) as writer:
        monkeypatch.setattr(journal.os, "fsync", slow_fsync)

        def work(name):
            first.wait()
            for number in range(1, each + 1):
                writer.add(name, "k", JournalRecord(number, Event.CHANGED))
                lines = path.read_bytes()[:on_disk].splitlines()
                if not any(e["node"] == name and e["number"] == number for e in map(json.loads, lines)):
                    early.append((name, number))

        threads = [threading.Thread(target=work, args=(f"n{i}",)) for i in range(nodes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert early == []
    assert len(path.read_text().splitlines()) == nodes * each
    assert flushes < nodes * each


def test_what_earlier_parts_changed_is_known_from_records_and_from_the_nodes_own_journal(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    planned = {"n": {"k1": ("a", "one"), "k2": ("a", "two"), "k3": ("b", "three"), "k4": ("b", "four")}}
    with RunJournal(run) as writer:
        writer.add("n", "k1", JournalRecord(1, Event.CHANGED))
        writer.add("n", "k2", JournalRecord(2, Event.BEGIN))
        writer.add("n", "", JournalRecord(0, Event.JOURNAL, "done k3"))
        writer.add("n", "", JournalRecord(0, Event.JOURNAL, "begun k2"))
        writer.add("n", "k4", JournalRecord(4, Event.CHANGED))
        writer.add("n", "k4", JournalRecord(4, Event.FAILED))
    with (run.path / "apply.journal.jsonl").open("a") as stream:
        stream.write('{"cut off in the mid')
    before = journal.before(run, planned).changed
    assert [(s.requirement, s.description) for s in before["n"]] == [("a", "one"), ("b", "three")]


def test_a_line_that_a_crash_tore_does_not_swallow_the_next(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    path = run.path / "apply.journal.jsonl"
    path.write_text('{"time": 1, "no')
    for _ in range(2):
        with RunJournal(run) as writer:
            writer.add("n", "k", JournalRecord(1, Event.CHANGED))
    assert len(path.read_text().splitlines()) == 3
    assert [s.key for s in journal.before(run, {"n": {"k": ("a", "one")}}).changed["n"]] == ["k"]


def test_steps_that_came_to_an_end_are_told_from_those_cut_off(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    with RunJournal(run) as writer:
        for key, events in {
            "changed": (Event.BEGIN, Event.CHANGED),
            "failed": (Event.BEGIN, Event.FAILED),
            "so": (Event.UNCHANGED,),
            "cut": (Event.BEGIN,),
            "failed, then cut": (Event.BEGIN, Event.FAILED, Event.BEGIN),
            "changed, then cut in another round": (Event.BEGIN, Event.CHANGED, Event.BEGIN),
            "left out": (Event.SKIPPED,),
        }.items():
            for event in events:
                writer.add("n", key, JournalRecord(1, event))
        # A round after those: what the node says of its journal is how the round before left it.
        for key in ("planned", "done-now"):
            writer.add("n", key, JournalRecord(1, Event.CHANGED))
        writer.add("n", "", JournalRecord(0, Event.PLANNED, "planned done-now"))
        writer.add("n", "", JournalRecord(0, Event.JOURNAL, "done planned"))
        writer.add("n", "", JournalRecord(0, Event.JOURNAL, "done unheard"))
        writer.add("n", "done-now", JournalRecord(1, Event.CHANGED))
    told = journal.before(
        run, {"n": {"changed": ("a", "b"), "changed, then cut in another round": ("a", "c")}}
    )
    assert told.ended == {"n": {"changed", "failed", "so", "unheard", "done-now"}}
    assert [step.description for step in told.changed["n"]] == ["b", "c"]


def test_options_come_back_from_the_run_folder(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    asked = Options(("acs",), ("docker",), Rolling("25%", "3"))
    journal.start(run, asked, "/state")
    assert journal.stored_options(run) == (asked, "/state")


def test_a_folder_of_another_verb_cannot_be_resumed(tmp_path):
    run = RunDir.create("check", tmp_path)
    run.write("apply", {"schema": "else"})
    with pytest.raises(PlanError, match=r"clusterctl\.apply/1"):
        journal.stored_options(run)


def test_the_end_of_a_resumed_run_keeps_what_earlier_parts_did(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    journal.start(run, Options(), "/state")

    def step(key, status):
        return StepOutcome("a", f"step {key}", status, key)

    lost, down = Failure(FailureKind.LOST, "went away"), Failure(FailureKind.REFUSED, "does not answer")
    changed, unchanged, skipped = AppliedStatus.CHANGED, AppliedStatus.UNCHANGED, AppliedStatus.SKIPPED
    journal.finish(
        run,
        {
            "whole": NodeOutcome((step("k1", changed),)),
            "cut": NodeOutcome((step("k1", changed), step("k2", changed), step("k3", skipped)), lost),
        },
        {"down": down},
        RunState.CUT,
    )
    first = run.read("apply")
    assert (first["state"], list(first["nodes"])) == ("cut", ["whole", "cut", "down"])
    assert first["nodes"]["down"] == {"error": {"kind": "refused", "message": "does not answer"}, "steps": []}
    assert first["nodes"]["cut"]["error"]["kind"] == "lost"

    rest = NodeOutcome((step("k2", unchanged), step("k3", changed)))
    journal.finish(run, {"cut": rest, "down": NodeOutcome((step("k1", changed),))}, {}, RunState.FINISHED)
    second = run.read("apply")
    assert second["state"] == "finished"
    assert second["nodes"]["whole"] == first["nodes"]["whole"]
    assert {
        name: [(s["key"], s["status"]) for s in node["steps"]] for name, node in second["nodes"].items()
    } == {
        "whole": [("k1", "changed")],
        "cut": [("k1", "changed"), ("k2", "changed"), ("k3", "changed")],
        "down": [("k1", "changed")],
    }
    assert all(node["error"] is None for node in second["nodes"].values())


def test_a_full_disk_under_the_run_folder_is_an_error_that_says_so(tmp_path):
    run = RunDir.create("bootstrap", tmp_path)
    (run.path / "apply.journal.jsonl").symlink_to("/dev/full")
    with RunJournal(run) as records, pytest.raises(ConfigError, match="No space left on device"):
        records.add("n", "key", JournalRecord(1, Event.CHANGED))


@pytest.mark.parametrize("document", [{}, {"version": 1, "nodes": [{"name": "a", "added_since": 1}]}])
def test_a_run_whose_inventory_is_none_any_more_is_refused_and_named(tmp_path, document):
    run = RunDir.create("bootstrap", tmp_path)
    run.write("inventory", document)
    with pytest.raises(PlanError, match=r"inventory\.json is not a valid inventory: ") as refused:
        bootstrap.stored_inventory(run)
    assert refused.value.hint == "start a new run"
