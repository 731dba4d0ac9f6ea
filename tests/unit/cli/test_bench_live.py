"""The live lines of a running benchmark: rows and windows as they arrive, and where the run stands."""

from pathlib import Path

import pytest

from clusterctl.cli.bench.live import LiveRun
from clusterctl.launch.viewer import Step, Turn

CASES = Path(__file__).parents[1] / "benchmarks" / "cases"
TABLE = (CASES / "h200-x4-all_reduce_perf-mpirun-np2-g1.txt").read_text()
STEP = Step("all_reduce", 2, 1, "openmpi", 600.0, total=8)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_last_rows_fit_below_the_state_of_the_run(width):
    live = LiveRun(1)
    live.starting(STEP)
    begun = " ".join(" ".join(live.lines(width, 6)).split())
    assert begun == "all_reduce (2 ranks): starting ranks, 0 s of at most 10 min 00 s"
    live.said(TABLE)
    lines = live.lines(width, 6)
    assert len(lines) == 6 and max(map(len, lines)) <= width
    head = next(number for number, line in enumerate(lines) if line.split()[0] == "size")
    assert " of 8 sizes" in "".join(lines[:head]) and head <= 2
    assert ("count" in lines[head]) is (width >= 120)
    assert live.lines(width, 1) == lines[:1]


def test_a_training_shows_its_windows_and_its_place_in_the_run():
    live = LiveRun()
    turn = Turn("ccore", 2, 2, 2, 5)
    live.starting(Step("resnet50", 4, 2, "openmpi", 600.0, training=True, point=1, points=3, turn=turn))
    live.said('clusterctl-record {"kind": "start", "rank": 0}\n')
    place = "resnet50 (4 ranks, point 1 of 3, variant ccore (2 of 2), repeat 2 of 5): "
    assert live.lines(200, 5)[0].startswith(place + "warming up, ")
    for number in (1, 2):
        live.said(
            f'clusterctl-record {{"kind": "window", "rank": 0, "number": {number}, "windows": 9, '
            '"samples_per_s": 20, "sample": "image"}\n'
        )
    (line,) = live.lines(200, 5)
    assert line.startswith(place + "window 2 of 9, 80.0 images/s so far, ")
    assert line.endswith(" left")


def test_a_program_shows_its_last_lines_and_how_long_no_rank_wrote_anything(capsys):
    live = LiveRun(1)
    live.starting(Step("train.py", 4, 2, "openmpi", 600.0, program=True))
    live.said("epoch 1\nepoch 2: 10%\repoch 2: 20%")
    live.quiet(9)
    state, *last = live.lines(120, 4)
    assert state == "train.py (4 ranks): ranks are running, 0 s of at most 10 min 00 s"
    assert last == ["  epoch 1", "  epoch 2: 10%", "  epoch 2: 20%"]
    live.quiet(75)
    assert live.lines(120, 4)[0] == f"{state}, no output for 1 min 15 s"
    live.noted("rank 2 on gpu02 (pid 7) is\x1b[2J stopped")
    assert capsys.readouterr().err == "note: rank 2 on gpu02 (pid 7) is\\x1b[2J stopped\n"


def test_each_finished_launch_leaves_one_line(capsys):
    live = LiveRun(4)
    for repeat in (1, 2):
        live.starting(Step("all_reduce", 2, 1, "local", 60.0, total=8, turn=Turn("a", 1, 1, repeat, 4)))
        live.ended(succeeded=repeat == 1)
    assert live.lines(80, 5) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Measured all_reduce with 2 ranks on 1 node through local (repeat 1 of 4) in 0.")


def test_the_time_left_comes_from_the_launches_before():
    live = LiveRun(3)
    live.starting(STEP)
    assert " left" not in live.lines(200, 5)[0]
    live.ended(succeeded=True)
    live.starting(STEP)
    assert live.lines(200, 5)[0].endswith("about 0 s left")


def test_a_rank_cannot_write_control_characters_to_the_terminal():
    live = LiveRun(1)
    live.starting(STEP)
    live.said(TABLE.replace(" float ", " \x1b[2J ").replace("sum", "s\x07m"))
    assert all(character.isprintable() for line in live.lines(200, 9) for character in line)
