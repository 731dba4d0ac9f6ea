"""What ``--drain`` does with Slurm's nodes: the reasons, the parser of scontrol, and which drains are lifted."""

from __future__ import annotations

import pytest

from clusterctl.cli import draining
from clusterctl.cli.draining import SlurmJudgement, SlurmNode
from clusterctl.cli.options import Drain
from clusterctl.errors import CommandError

RUN = "20261129T010203Z-accept-1a2b"
SHOWN = (
    "NodeName=gpu01 Arch=x86_64 CoresPerSocket=4 State=IDLE+DRAIN ThreadsPerCore=1 "
    "Reason=clusterctl: gpu-gemm: GPU 2 at 71 % (20261129T010203Z-accept-1a2b) [root@2026-11-29T01:09:00]\n"
    "NodeName=gpu02 Arch=x86_64 State=MIXED+CLOUD Partitions=all \n"
    "NodeName=gpu03 State=DOWN*+DRAIN Partitions=all Reason=bad DIMM [ann@2026-11-29T01:09:00]\n"
)
OURS = f"clusterctl: gpu-gemm: GPU 2 at 71 % ({RUN})"


def test_the_reason_names_the_fault_and_the_run():
    assert draining.reason_of({"gpu-gemm": "GPU 2 at 71 %"}, RUN) == OURS


def test_a_reason_is_short_and_holds_nothing_that_a_shell_reads():
    faults = {f"row-{number}": "`rm`\n$(x) \"y\" 'z' \\ \x1b[31mé " + "long " * 100 for number in range(60)}
    reason = draining.reason_of(faults, RUN)
    assert len(reason) <= 200 and reason.isascii() and reason.isprintable()
    assert not set("\"'`$\\") & set(reason)
    assert "row-13 and 46 more: " in reason and reason.endswith(f"({RUN})")


def test_scontrol_is_parsed():
    assert draining.parse(SHOWN) == {
        "gpu01": SlurmNode(True, OURS),
        "gpu02": SlurmNode(False, ""),
        "gpu03": SlurmNode(True, "bad DIMM"),
    }


@pytest.mark.parametrize(
    "text",
    ["", "No nodes in the system\n", "NodeName=gpu01\n", "NodeName=gpu01 State=" + "A+" * 9999, "\0" * 70000],
)
def test_other_text_is_left_out(text):
    assert draining.parse(text) == {}


def test_nodes_with_one_reason_are_one_command():
    judged = {name: SlurmJudgement({"gpu-gemm": "slow"}) for name in ("gpu03", "gpu07", "lost")}
    known = {name: SlurmNode(False, "") for name in ("gpu03", "gpu07")}
    commands, notes = draining.updates(judged, known, RUN)
    assert [one.argv for one in commands] == [
        (
            "scontrol",
            "update",
            "NodeName=gpu[03,07]",
            "State=DRAIN",
            f"Reason=clusterctl: gpu-gemm: slow ({RUN})",
        )
    ]
    assert notes == ("note: lost: not a node of Slurm, so not drained",)


def test_slurm_gets_no_bracket_inside_a_name():
    judged = {name: SlurmJudgement({"disk": "slow"}) for name in ("gpu1-ib", "gpu2-ib")}
    (one,), _ = draining.updates(judged, dict.fromkeys(judged, SlurmNode(False, "")), RUN)
    assert one.argv[2] == "NodeName=gpu1-ib,gpu2-ib"


GOOD = SlurmJudgement({}, frozenset({"gpu-gemm", "disk"}))


@pytest.mark.parametrize(
    ("reason", "judged", "lifted"),
    [
        (OURS, GOOD, True),
        (f"clusterctl: gpu-gemm, disk: slow ({RUN})", GOOD, True),
        (f"clusterctl: gpu-gemm, xid: slow ({RUN})", GOOD, False),
        (f"clusterctl: gpu-gemm and 3 more: slow ({RUN})", GOOD, False),
        ("clusterctl: gpu-gemm: slow (20261129T010203Z-check-1a2b)", GOOD, False),
        (f"ann: gpu-gemm: slow ({RUN})", GOOD, False),
        ("clusterctl: FAIL gpu-gemm", GOOD, False),
        ("", GOOD, False),
        (OURS, SlurmJudgement({}, frozenset({"disk"})), False),
        (OURS, SlurmJudgement({"disk": "slow"}, frozenset({"gpu-gemm"})), False),
    ],
)
def test_only_the_same_command_lifts_a_drain_whose_faults_are_good(reason, judged, lifted):
    commands, notes = draining.updates({"gpu01": judged}, {"gpu01": SlurmNode(True, reason)}, RUN)
    assert [one.argv for one in commands] == [
        ("scontrol", "update", "NodeName=gpu01", "State=UNDRAIN")
    ] * lifted
    assert len(notes) == 1 - lifted


def test_a_node_in_use_is_neither_drained_nor_undrained_without_a_fault():
    assert draining.updates({"gpu01": GOOD}, {"gpu01": SlurmNode(False, OURS)}, RUN) == ((), ())


def test_without_scontrol_the_run_does_not_start(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    draining.require(None)
    draining.require(Drain.PRINT)
    with pytest.raises(CommandError, match="scontrol not found"):
        draining.require(Drain.SLURM)


def test_without_scontrol_the_commands_are_printed(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    draining.apply(
        Drain.PRINT, {"gpu01": SlurmJudgement({"disk": "slow"}), "gpu02": GOOD}, RUN, as_json=False
    )
    assert capsys.readouterr().out == (
        f"scontrol update NodeName=gpu01 State=DRAIN 'Reason=clusterctl: disk: slow ({RUN})'\n"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo Access denied >&2; exit 1", "exit status 1: Access denied"), ("exec sleep 60", "no answer")],
)
def test_a_scontrol_that_fails_or_hangs_is_named(monkeypatch, tmp_path, script, said):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(draining, "_TIMEOUT_S", 1.0)
    with pytest.raises(CommandError, match=said):
        draining.require(Drain.SLURM)
