"""mpirun's one stream, taken apart per rank."""

from clusterctl.launch.ranklog import RankLog

# As Open MPI 4.1.4 writes it, with rank 1 flushing half a line between two lines of rank 0.
STREAM = """[1,0]<stdout>:# header
[1,1]<stderr>:warning: slow
[1,0]<stdout>:row [1,1]<stdout>:half [1,0]<stdout>:one
[1,1]<stdout>:line
mpirun noticed something
[1,10]<stdout>:
"""


def test_every_rank_gets_its_own(tmp_path):
    with RankLog(tmp_path) as log:
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
    with RankLog(tmp_path) as log:
        log.line("[1,3]<stdout>:alive")
        assert log.path(3).read_text() == "alive\n"


def test_what_a_launchers_script_says_in_a_ranks_place_is_the_launchers(tmp_path):
    with RankLog(tmp_path) as log:
        log.line("[1,1]<stderr>:out of memory")
        log.line("[1,1]<stderr>:hydra_rank: rank 1 on gpu02 exited with status 1")
    assert log.errors_by_rank == {1: "out of memory\n"}
    assert log.launcher == "hydra_rank: rank 1 on gpu02 exited with status 1"
    assert (tmp_path / "launcher.log").read_text() == log.launcher + "\n"


def test_a_full_disk_ends_the_files_and_not_the_run(tmp_path, caplog):
    (tmp_path / "rank-0.log").symlink_to("/dev/full")
    with RankLog(tmp_path) as log:
        for line in ("[1,0]<stdout>:one", "[1,0]<stdout>:two", "[1,1]<stdout>:three"):
            log.line(line)
    assert log.by_rank == {0: "one\ntwo\n", 1: "three\n"}
    assert [record.getMessage() for record in caplog.records] == [
        f"the ranks' logs in {tmp_path} end here: No space left on device"
    ]


def test_the_folder_is_made_for_its_owner_alone(tmp_path):
    with RankLog(tmp_path / "np-2") as log:
        log.line("[1,0]<stdout>:one")
    assert (tmp_path / "np-2").stat().st_mode & 0o777 == 0o700
