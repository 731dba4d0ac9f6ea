"""Earlier runs of locate that named the same node are counted."""

from __future__ import annotations

import json

from clusterctl.documents.locate import Locate, LocateStatus, Suspect, SuspectStatus
from clusterctl.results import locate
from clusterctl.rundir import RunDir


def located(run, *names):
    suspects = tuple(
        Suspect(
            nodes=one if isinstance(one, tuple) else (one,), place=0, interface=None, status=SuspectStatus.NAMED,
            ratio=0.7, chance=1e-4, confirmations=6, low_with=8, partners=8,
        )
        for one in names
    )  # fmt: skip
    return Locate(
        run=run, status=LocateStatus.NAMED if names else LocateStatus.NONE, library="gloo", launcher="openmpi", nodes=4,
        ranks=4, rounds=8, windows=3, repeated=0, duration_s=1.0, false_alarms_per_run=0.002, suspects=suspects,
        suspects_alone=(), sometimes_slow=(), groups=(), boundary=None, slow_rails=(), rates=(), failures=(),
    )  # fmt: skip


def test_names_of_earlier_runs_are_counted(tmp_path):
    for names in (("gpu17",), (), ("gpu17", ("gpu01", "gpu02")), ("gpu40",)):
        run = RunDir.create("locate", tmp_path)
        run.write("results", located(run.id, *names).document())
    damaged = RunDir.create("locate", tmp_path)
    damaged.file("results").write_text(json.dumps({"schema": "clusterctl.locate/1"}))
    RunDir.create("locate", tmp_path)  # interrupted
    present = located("now", "gpu17", ("gpu01", "gpu02"), "gpu03")
    assert locate.lines(locate.before(tmp_path, present)) == [
        "gpu17: also named in 2 of 4 runs of the last 30 days",
        "gpu01 - gpu02: also named in 1 of 4 runs of the last 30 days",
    ]
    assert locate.before(tmp_path, located("now")) == ()
