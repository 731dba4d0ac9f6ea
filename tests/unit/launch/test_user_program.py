"""A program of the user: its name, the rates that it prints, the time that a pattern may take, and what is brought."""

import io
import os
import secrets
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from clusterctl.benchmarks.base import FaultKind
from clusterctl.benchmarks.user_program import HOROVOD, RateLine, UserProgram
from clusterctl.cli.launch import files
from clusterctl.cli.launch.command import program_of
from clusterctl.errors import ResultError, UsageError
from clusterctl.launch import rates, user_program
from clusterctl.launch.rate_search import last_matches

TOTAL = RateLine(r"samples/s: (\S+)")
PER_RANK = RateLine(r"samples/s: (\S+)", per_rank=True)


def run_of(rate, said, np):
    return UserProgram(("x",), rate).run_of(last_matches(rate.pattern, said), np)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("python3", "/a/train.py", "--x"), "train.py"),
        (("/opt/venv/bin/python", "-m", "pkg.train"), "pkg.train"),
        (("env", "A=1", "B=b c", "bash", "run.sh"), "run.sh"),
        (("python", "-u", "train.py"), "python"),
        (("./nccl\ntests",), "nccl tests"),
        (("sh", "-c", "true"), "sh"),
        (("env", "-i", "sh"), "env"),
    ],
)
def test_a_program_has_the_name_of_its_script(words, name):
    assert UserProgram(words).name == name


@pytest.mark.parametrize(
    ("rate", "said", "total"),
    [
        (RateLine(), {0: "x\nTotal img/sec on 2 GPU(s): 493.6 +-4.8\n", 1: ""}, 493.6),
        (TOTAL, {0: "samples/s: 1\nsamples/s: 1,024.5\n", 1: "samples/s: 99999\n"}, 1024.5),
        (TOTAL, {0: "", 1: "samples/s: 7"}, 7),
        (PER_RANK, {0: "samples/s: 3", 1: "samples/s: 4"}, 7),
    ],
)
def test_the_rate_is_that_of_all_ranks(rate, said, total):
    run = run_of(rate, said, 2)
    assert (run.faults, run.samples_per_s) == ((), total)


@pytest.mark.parametrize(
    ("rate", "said", "kind", "word"),
    [
        (RateLine(), {0: "Total img/sec on 1 GPU(s): 9.0 +-0.1"}, FaultKind.FEWER_RANKS, "of 1 ranks"),
        (TOTAL, {0: "samples/s: nan"}, FaultKind.UNPARSABLE, "'nan'"),
        (TOTAL, {0: "samples/s: -3"}, FaultKind.UNPARSABLE, "'-3'"),
        (TOTAL, {0: "samples/s: 1e400"}, FaultKind.UNPARSABLE, "'1e400'"),
        (TOTAL, {0: "nothing"}, FaultKind.UNPARSABLE, "no rank printed"),
        (TOTAL, {1: "samples/s: 1", 2: "samples/s: 1"}, FaultKind.UNPARSABLE, "ranks 1, 2 printed"),
        (PER_RANK, {0: "samples/s: 1"}, FaultKind.UNPARSABLE, "rank 1 printed no rate"),
    ],
)
def test_a_rate_that_cannot_be_believed_is_a_fault(rate, said, kind, word):
    run = run_of(rate, said, 3)
    (fault,) = run.faults
    assert (fault.kind, run.total) == (kind, None)
    assert word in fault.message


def test_a_program_without_a_rate_is_no_fault():
    run = run_of(RateLine(), {0: "done"}, 2)
    assert (run.faults, run.total, run.rates) == ((), None, ())


def test_the_group_names_the_unit_and_a_rank_is_noted_whose_rate_does_not_count():
    rate = RateLine(r"(?P<token>\d+) tokens/s")
    found = last_matches(rate.pattern, {0: "12 tokens/s", 3: "90 tokens/s"})
    program = UserProgram(("x",), rate)
    assert program.run_of(found, 4).sample == "token"
    assert program.notes(found) == (
        "rank 3 printed a rate, too: that of rank 0 counts for all ranks; --rate-per-rank adds up those of all ranks",
    )


def test_a_pattern_of_exponential_time_is_ended(monkeypatch):
    monkeypatch.setattr(rates, "_TIMEOUT_S", 1.0)
    with pytest.raises(ResultError, match="took more than 1 s"):
        rates.matches(RateLine(r"(a+)+$"), {0: "a" * 60 + "!"})
    assert rates.matches(TOTAL, {3: "samples/s: 5\n"}) == {3: {"sample": "5"}}


def test_horovods_pattern_takes_linear_time():
    assert last_matches(HOROVOD, {0: "Total img/sec on 1 " * 50_000}) == {}


@pytest.mark.parametrize("pattern", ["(", "no group", "(a)(b)", "(?P<other>a)", "(a)" + "x" * 500])
def test_a_pattern_needs_one_group(pattern):
    with pytest.raises(UsageError, match="--rate"):
        program_of(["x"], pattern, per_rank=False)


def test_only_the_nodes_that_lack_a_file_are_named():
    said = {"n1": "", "n2": "missing train.py not found\n", "n3": "missing train.py not found\nlogin noise\n"}
    (fault,) = user_program.missing(UserProgram(("x",)), said)
    assert (fault.message, fault.node) == ("n[2-3]: train.py not found", "n2")


def test_a_rank_reports_only_what_it_left_itself():
    texts = {
        0: "program_rank: rank 1 left sleep (pid 7)\n",
        1: "x\nprogram_rank: rank 1 left sleep (pid 8)\n",
    }
    assert user_program.left_behind(texts, ("a", "b")) == ("sleep (pid 8) of rank 1 on b",)


SAVING = """\
import signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up", flush=True)
signal.sigwait([signal.SIGTERM])
time.sleep(0.2)
print("saved")
sys.exit(3)
"""


def test_a_program_that_the_launcher_ends_may_save_its_state():
    """SIGTERM ends neither the script nor the program at once, and the program is nothing that a rank left behind."""
    script = Path(user_program.__file__).with_name(user_program.WRAPPER)
    words = ("sh", str(script), "", "", sys.executable, "-c", SAVING)
    env = {**os.environ, "CLUSTERCTL_LAUNCH": secrets.token_hex(8)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as rank:
        assert rank.stdout.readline() == "up\n"
        rank.send_signal(signal.SIGTERM)
        rank.send_signal(signal.SIGTERM)
        said, errors = rank.communicate(timeout=60)
    assert (rank.returncode, said) == (3, "saved\n"), errors
    assert "program_rank" not in errors


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    for name in ("pkg", ".git", "__pycache__", "runs"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
    (folder / "train.py").write_text("x")
    (folder / "train.py").chmod(0o4755)
    (folder / "same.py").hardlink_to(folder / "train.py")
    (folder / "link").symlink_to("pkg/file")
    return folder


def test_a_directory_is_brought_without_caches_run_folders_and_special_modes(code):
    with tarfile.open(fileobj=io.BytesIO(files.packed(code, code / "runs"))) as tar:
        found = {entry.name: entry for entry in tar}
    assert set(found) == {"pkg", "pkg/file", "train.py", "same.py", "link"}
    assert (found["train.py"].mode, found["same.py"].isreg()) == (0o755, True)
    assert {(entry.uid, entry.uname) for entry in found.values()} == {(0, "")}


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "pkg/../../outside"])
def test_a_link_out_of_the_directory_is_refused(code, target):
    (code / "bad").symlink_to(target)
    with pytest.raises(UsageError, match="the link bad leads out of the directory"):
        files.packed(code, code / "runs")


def test_links_in_a_circle_are_brought_as_they_are(code):
    (code / "this").symlink_to("that")
    (code / "that").symlink_to("this")
    with tarfile.open(fileobj=io.BytesIO(files.packed(code, code / "runs"))) as tar:
        assert tar.getmember("this").linkname == "that"


def shorter(*_, **__):
    raise OSError("unexpected end of data")


def test_a_file_is_refused_by_its_size_before_it_is_read(code, monkeypatch):
    os.truncate(code / "train.py", files.LARGEST_BYTES)
    monkeypatch.setattr(tarfile.TarFile, "addfile", lambda *_: None)
    with pytest.raises(UsageError, match="or 64 MiB"):
        files.packed(code, code / "runs")
    os.truncate(code / "train.py", 1)
    monkeypatch.undo()
    monkeypatch.setattr(tarfile, "copyfileobj", shorter)
    with pytest.raises(UsageError, match="code: a file changed"):
        files.packed(code, code / "runs")


def test_special_files_and_too_much_are_refused(code, monkeypatch):
    os.mkfifo(code / "pipe")
    with pytest.raises(UsageError, match="pipe is not a file"):
        files.packed(code, code / "runs")
    (code / "pipe").unlink()
    monkeypatch.setattr(files, "MOST_FILES", 2)
    with pytest.raises(UsageError, match="more than 2 files"):
        files.packed(code, code / "runs")
    with pytest.raises(UsageError, match="is not a directory"):
        files.packed(code / "train.py", code / "runs")
