"""A launcher's one stream, taken apart per rank and kept in files."""

import pytest

from clusterctl.launch.attribution import LeadingTags, MarkedTags
from clusterctl.launch.ranklog import RankLog

MARKED = MarkedTags("f00d")
# As Hydra writes it, with rank 1 flushing half a line between two lines of rank 0.
STREAM = """[f00d,0]<stdout>:# header
[f00d,1]<stderr>:warning: slow
[f00d,0]<stdout>:row [f00d,1]<stdout>:half [f00d,0]<stdout>:one
[f00d,1]<stdout>:line
mpirun noticed something
[f00d,10]<stdout>:
"""


def test_every_rank_gets_its_own(tmp_path):
    with RankLog(tmp_path, MARKED, 11) as log:
        for line in STREAM.splitlines():
            log.line(line)
    assert log.by_rank[0] == "# header\nrow one\n"
    assert log.by_rank[1] == "half line\n"
    assert log.by_rank[10] == "\n"
    assert log.errors_by_rank == {1: "warning: slow\n"}
    assert log.launcher == "mpirun noticed something"
    assert (tmp_path / "rank-0.log").read_text() == "# header\nrow one\n"
    assert (tmp_path / "rank-1.log").read_text() == "warning: slow\nhalf line\n"
    assert (tmp_path / "launcher.log").read_text() == "mpirun noticed something\n"


def test_what_is_written_is_on_disk_while_the_ranks_still_run(tmp_path):
    with RankLog(tmp_path, MARKED, 4) as log:
        log.line("[f00d,3]<stdout>:alive")
        assert log.path(3).read_text() == "alive\n"


@pytest.mark.parametrize(("errors", "followed"), [(False, ["out\n"]), (True, ["progress\n", "out\n"])])
def test_the_output_of_rank_0_is_followed(tmp_path, errors, followed):
    seen = []
    with RankLog(tmp_path, MARKED, 2, seen.append, follow_errors=errors) as log:
        log.line("[f00d,1]<stdout>:another")
        log.line("[f00d,0]<stderr>:progress")
        log.line("[f00d,0]<stdout>:out")
    assert seen == followed


def test_what_a_launchers_script_says_in_a_ranks_place_is_the_launchers(tmp_path):
    with RankLog(tmp_path, MARKED, 2) as log:
        log.line("[f00d,1]<stderr>:out of memory")
        assert log.first_end is None
        log.line("[f00d,1]<stderr>:hydra_rank: rank 1 on gpu02 exited with status 1")
        first = log.first_end
        log.line("[f00d,0]<stderr>:hydra_rank: rank 0 on gpu01 exited with status 1")
    assert first is not None and log.first_end == first
    assert log.errors_by_rank == {1: "out of memory\n"}
    assert log.launcher.splitlines() == [
        "hydra_rank: rank 1 on gpu02 exited with status 1",
        "hydra_rank: rank 0 on gpu01 exited with status 1",
    ]
    assert (tmp_path / "launcher.log").read_text() == log.launcher + "\n"


def test_a_rank_reports_no_other_ranks_end(tmp_path):
    with RankLog(tmp_path, MARKED, 11) as log:
        log.line("[f00d,1]<stderr>:hydra_rank: rank 0 on gpu01 exited with status 1")
        log.line("[f00d,1]<stderr>:hydra_rank: rank 10 on gpu01 exited with status 1")
    assert (log.launcher, log.first_end) == ("", None)
    assert log.errors_by_rank[1].count("hydra_rank") == 2


def test_a_rank_writes_nothing_else_as_its_launcher(tmp_path):
    """Lines of the launcher may name other ranks and nodes."""
    forged = "hydra_rank: rank 1 on gpu01:1:2 [0] NCCL WARN Cuda failure 999 'unknown error'"
    with RankLog(tmp_path, MARKED, 2) as log:
        log.line(f"[f00d,1]<stderr>:{forged}")
    assert log.launcher == "" and log.errors_by_rank == {1: f"{forged}\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["rank-1.log"]


def test_ranks_that_were_not_started_have_no_file(tmp_path):
    """A node's own launcher daemon may name any rank: each would be a file more."""
    with RankLog(tmp_path, LeadingTags(), 2) as log:
        for rank in range(2000):
            log.line(f"[1,{rank}]<stdout>:x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0.log", "rank-1.log"]
    assert set(log.by_rank) == {0, 1}


def test_a_full_disk_ends_the_files_and_not_the_run(tmp_path, caplog):
    (tmp_path / "rank-0.log").symlink_to("/dev/full")
    with RankLog(tmp_path, MARKED, 2) as log:
        for line in ("[f00d,0]<stdout>:one", "[f00d,0]<stdout>:two", "[f00d,1]<stdout>:three"):
            log.line(line)
    assert log.by_rank == {0: "one\ntwo\n", 1: "three\n"}
    assert [record.getMessage() for record in caplog.records] == [
        f"the ranks' logs in {tmp_path} are incomplete, writing failed: No space left on device"
    ]


def test_directory_and_files_are_the_owners_alone(tmp_path):
    """What ranks print may hold secrets."""
    with RankLog(tmp_path / "np-2", MARKED, 2) as log:
        log.line("[f00d,0]<stdout>:one")
        log.line("mpirun: two")
    assert (tmp_path / "np-2").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "np-2").iterdir()} == {0o600}
