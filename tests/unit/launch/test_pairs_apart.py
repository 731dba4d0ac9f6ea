"""The ranks of a pair on one node, run by a real shell: how each ended, and nothing of it stays."""

from __future__ import annotations

import os
import secrets
import subprocess

import pytest
from listening import wait_until

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.evidence import PairAlone, PairsAlone
from clusterctl.launch import pairs_apart
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.pairs_apart import RankEnd
from clusterctl.trust.dead_pairs import judge

# Only what hangs is hurried: on a busy machine a rank that ends at once may take seconds.
PATIENT = '#!/bin/sh\n[ "$RANK" != 0 ] || { shift 3; set -- -s KILL 100 "$@"; }\nexec /usr/bin/timeout "$@"\n'
SAYS = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $KEY" >&2; exit "$RANK"'


def plan(tmp_path, *program, timeout_s=30.0):
    return LaunchPlan(
        launcher=OpenMpi(), token=secrets.token_hex(8), mark="f00d", directory=str(tmp_path),
        placements=tuple(Placement(f"gpu0{n}", f"h{n}", f"10.0.0.{n}", 22, None, 2) for n in (1, 2)),
        program=program, env=(("KEY", None), ("A", "a b")), map_by="node", interfaces=None, timeout_s=timeout_s,
        secrets=(("KEY", "s'3"),),
    )  # fmt: skip


def ran(script, env=None):
    done = subprocess.run(
        ("sh", "-s"),
        input=script,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return pairs_apart.parse(done.stdout.decode())


def test_each_rank_gets_its_place_and_its_end_is_reported(tmp_path):
    assert ran(pairs_apart.script(plan(tmp_path, "sh", "-c", SAYS), "gpu02")) == (
        RankEnd(1, 1, "1 of 4, 0 of 2, s'3"),
        RankEnd(3, 3, "3 of 4, 1 of 2, s'3"),
    )
    assert list(tmp_path.iterdir()) == []


def test_pairs_that_share_a_directory_do_not_take_each_others_ends(tmp_path):
    """Rank 0 has ended while rank 2 waits for another pair, which runs from its beginning to its end meanwhile."""
    waits = "until [ -e other-has-ended ]; do sleep 0.05; done"
    program = ("sh", "-c", f"[ $RANK = 2 ] || {{ : >begun; exit 5; }}; {waits}")
    script = pairs_apart.script(plan(tmp_path, *program, timeout_s=100), "gpu01")
    with subprocess.Popen(("sh", "-c", script), stdout=subprocess.PIPE) as first:
        wait_until((tmp_path / "begun").exists, "rank 0 has not begun")
        assert [end.status for end in ran(pairs_apart.script(plan(tmp_path, "true"), "gpu01"))] == [0, 0]
        (tmp_path / "other-has-ended").touch()
        ends = pairs_apart.parse(first.communicate()[0].decode())
    assert [(end.rank, end.status) for end in ends] == [(0, 5), (2, 0)]


def test_a_rank_that_hangs_is_ended_and_one_that_succeeds_may_be_silent(tmp_path):
    program = ("sh", "-c", '[ "$RANK" = 0 ] || exec sleep 1000')
    (tmp_path / "timeout").write_text(PATIENT)
    (tmp_path / "timeout").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ends = ran(pairs_apart.script(plan(tmp_path, *program, timeout_s=1), "gpu01"), {"PATH": path})
    assert ends[0] == RankEnd(0, 0, "") and (ends[1].rank, ends[1].status) == (2, 137)


@pytest.mark.parametrize("text", ["", "x\t1\t", "1\t-1\tx", "1 2 3"])
def test_malformed_lines_are_no_end_of_a_rank(text):
    assert pairs_apart.parse(text) == ()


HANG = (Fault(FaultKind.DEADLINE, "the launch did not end within 30 s"),)


@pytest.mark.parametrize(
    ("failed", "node", "words"),
    [
        ({"ad", "bd", "cd"}, "d", "d fails with each partner that works with other nodes"),
        ({"bd"}, None, "b and d fail with each other and work with other nodes: the path between them"),
        (set(), None, "every pair of a,b,c,d works alone"),
        ({"ab", "ac", "ad", "bc", "bd", "cd"}, None, "which node is not known"),
    ],
)
def test_the_pairs_are_a_fault_beside_that_of_the_launch(failed, node, words):
    pairs = [one + other for one in "abcd" for other in "abcd" if one < other]
    found = judge([PairAlone((one[0], one[1]), "hangs" if one in failed else None) for one in pairs])
    first, second = pairs_apart.explained(HANG, found)
    assert first.message == HANG[0].message and (second.kind, second.node) == (FaultKind.DEADLINE, node)
    assert words in second.message


def test_pairs_that_were_not_run_are_not_said_to_work():
    _, fault = pairs_apart.explained(HANG, judge([PairAlone(("a", "b")), PairAlone(("c", "d"))]))
    assert fault.message == "2 of 6 pairs of a,b,c,d were run, and each works alone"


def test_without_pairs_nothing_is_added():
    assert pairs_apart.explained(HANG, PairsAlone()) == HANG
