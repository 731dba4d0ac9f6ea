"""The catalogue of known errors: every entry by its own example, none by what is healthy, no line without an end."""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_texts import VARIANTS
from pydantic import ValidationError

from clusterctl.documents.kinds import ErrorRole
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.model import WINDOW_CHARACTERS, KnownError, Match
from clusterctl.report.known_errors.origin import origin_of
from clusterctl.report.known_errors.scan import PIECE_BYTES, Scan, _without_numbers
from clusterctl.report.text import explained

LOGS = Path(__file__).parent / "logs"
ROOT = Path(__file__).resolve().parents[3]
ENTRIES = topic_files.load()


def scanned(*texts: bytes | Path) -> Scan:
    scan = Scan(ENTRIES)
    for index, text in enumerate(texts):
        if isinstance(text, Path):
            with text.open("rb") as stream:
                scan.read(text.name, stream)
        else:
            scan.read(f"log{index}", io.BytesIO(text))
    return scan


def found_ids(scan: Scan) -> list[str]:
    return [finding.entry.id for finding in scan.findings]


def test_there_are_more_than_sixty_and_each_has_its_own_name() -> None:
    names = [entry.id for entry in ENTRIES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_an_example_is_explained_by_its_own_entry_and_no_other() -> None:
    wrong = [
        (entry.id, example, found)
        for entry in ENTRIES
        for example in entry.examples
        if (found := found_ids(scanned(example.encode()))) != [entry.id]
    ]
    assert wrong == []


def test_an_entry_says_what_to_do_and_where_that_is_known_from() -> None:
    texts = [(entry.id, text) for entry in ENTRIES for text in (entry.meaning, entry.cause, entry.fix)]
    assert [one for one in texts if not one[1].endswith((".", ")", "]"))] == []
    assert [one for one in texts if len(one[1]) >= 420] == []
    sources = [(entry.id, source) for entry in ENTRIES for source in entry.sources]
    assert [
        one for one in sources if not one[1].startswith("https://") and not (ROOT / one[1]).is_file()
    ] == []


@pytest.mark.parametrize("path", sorted((LOGS / "healthy").iterdir()), ids=lambda path: path.name)
def test_healthy_logs_are_explained_by_nothing(path: Path) -> None:
    assert found_ids(scanned(path)) == []


@pytest.mark.parametrize(
    ("name", "first", "others"),
    [
        ("openmpi4-slots.log", "ompi-not-enough-slots", []),
        ("openmpi4-exe.log", "ompi-executable-missing", []),
        ("openmpi4-root.log", "ompi-run-as-root", []),
        ("openmpi4-hostfile.log", "ompi-hostfile-missing", []),
        ("openmpi4-resolve.log", "ssh-resolve", ["ompi-daemons-not-started"]),
        ("openmpi4-refused.log", "ssh-refused", ["ompi-daemons-not-started"]),
        ("openmpi4-kill.log", "mpi-aborted", ["mpi-rank-killed"]),
        ("torchrun-sigkill.log", "torch-child-failed", ["torch-child-sigkill"]),
        ("torch-timeout.log", "torch-rendezvous-timeout", []),
        ("nccl-info-over-sockets.log", "nccl-channel-over-socket", []),
        (
            "memlock-on-one-node.log",
            "nccl-memlock",
            ["nccl-return-trace", "nccl-peer-closed", "nccl-tests-failure", "mpi-aborted"],
        ),
        ("python-module-missing.log", "python-module-missing", ["torch-child-failed"]),
        ("unknown-cause-torchrun.log", "torch-child-failed", []),
        ("cudart-missing.log", "cuda-library-missing", ["slurm-task-exited"]),
        ("glibc-too-old.log", "glibc-too-old", ["libstdcxx-too-old"]),
        ("nccl-undefined-symbol.log", "nccl-undefined-symbol", []),
        ("loss-nan.log", "loss-nan", []),
        ("slurm-more-processors.log", "slurm-more-processors", []),
        ("dpkg-dkms.log", "dkms-build-failed", ["dpkg-script-failed", "dpkg-error-code"]),
        ("dpkg-script.log", "dpkg-script-failed", []),
        ("gpu-lost.log", "xid-79-off-the-bus", ["torch-collective-timeout", "torch-child-failed"]),
    ],
)
def test_a_broken_run_names_its_root_cause_first(name: str, first: str, others: list[str]) -> None:
    assert found_ids(scanned(LOGS / "broken" / name)) == [first, *others]


def test_line_hosts_ranks_and_repeats_are_named() -> None:
    cause = scanned(LOGS / "broken" / "memlock-on-one-node.log").findings[0]
    assert (cause.first.number, cause.last.number, cause.count) == (4, 6, 2)
    assert (list(cause.hosts), cause.ranks) == (["gpu02"], {8, 9})


def test_gpus_are_named_by_their_address_or_index() -> None:
    lines = "".join(
        f"NVRM: Xid (PCI:0000:{bus}:00): 79, pid=1, GPU has fallen off the bus.\n"
        for bus in ("2b", "9a", "2b")
    )
    scan = scanned(lines.encode())
    assert list(scan.findings[0].gpus) == ["0000:2b:00", "0000:9a:00"]
    assert "; GPUs 0000:2b:00, 0000:9a:00" in rendered(scan)
    scan = scanned(b"gpu01:12:40 [3] enqueue.cc:1200 NCCL WARN Cuda failure 999 'unknown error'\n")
    assert list(scan.findings[0].gpus) == ["3"] and "; on gpu01; GPU 3" in rendered(scan)
    assert scanned(b"RuntimeError: CUDA error: out of memory\n").findings[0].gpus == {}


def errors_of_collective_core() -> set[str]:
    """Return the errors of its C++ sources as Python shows them, with 3 for each value in the text."""
    call = re.compile(r'Error\(CC_ERROR_([A-Z_]+),\s*(?:format\(|[^";]{0,40})?"((?:[^"\\]|\\.)*)"')
    folders = ("src", "cuda", "nccl", "nccl_plugins")
    sources = [path for name in folders for path in (ROOT / "collective_core" / name).rglob("*.c*")]
    found = {match for path in sources for match in call.findall(path.read_text(encoding="utf-8"))}
    return {f"{code.lower()}: {re.sub('%[0-9.a-z]*[dsuf]', '3', text)}" for code, text in found}


def test_each_error_of_collective_core_is_known_and_names_its_rank() -> None:
    errors = errors_of_collective_core()
    assert len(errors) > 100
    for error in errors:
        (found,) = scanned(f"collective_core.errors.CollectiveCoreError: {error}".encode()).findings
        assert found.entry.id.startswith("ccore-"), error
        is_named = error.startswith(
            ("remote: rank 3", "timeout: rank 3", "remote: lost the connection to rank 3")
        )
        assert not is_named or found.ranks == {3}, error
    for error in (
        "remote: rank 3 (host gpu02, pid 7) has left",
        "timeout: these ranks did not come in time: rank 3",
    ):
        (found,) = scanned(f"[rank0]: collective_core.errors.CollectiveCoreError: {error}".encode()).findings
        assert found.ranks == {3} and "gpu01" not in found.hosts, error


def test_a_switch_is_not_named_as_a_gpu() -> None:
    line = (
        b"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error\n"
    )
    assert scanned(line).findings[0].gpus == {}


def test_who_reports_another_rank_is_not_named() -> None:
    lost = b"rank 2 (host gpu02, pid 4711) died or cannot be reached (connection closed)"
    left = b"rank 2 (host gpu02, pid 4711) destroyed its communicator before operation 12: send(count=8, u8)"
    missing = b"Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 2]"
    for line, hosts in ((lost, ["gpu02"]), (left, []), (missing, [])):
        found = scanned(b"Nov 21 07:01:02 gpu01 train[7]: " + line + b"\n").findings[0]
        assert (list(found.hosts), found.ranks) == (hosts, {2}), line


@pytest.mark.parametrize(
    ("line", "entry", "is_cause"),
    [
        (
            (
                b"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:575] Connection closed by peer "
                b"[127.0.1.1]:39827"
            ),
            "gloo-peer-closed",
            False,
        ),
        (
            (
                b"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:535] Read error "
                b"[10.1.3.122]:42916: Connection reset by peer"
            ),
            "gloo-peer-closed",
            False,
        ),
        (
            (
                b"RuntimeError: Gloo connectFullMesh failed with "
                b"[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
            ),
            "gloo-connect",
            True,
        ),
        (
            (
                b"[E1012 10:11:12.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
                b"WorkNCCL(SeqNum=112, OpType=ALLREDUCE) ran for 600029 milliseconds before timing out."
            ),
            "torch-collective-timeout",
            True,
        ),
    ],
)
def test_a_rank_whose_peer_ended_is_not_named_for_it(line: bytes, entry: str, is_cause: bool) -> None:
    scan = Scan(ENTRIES)
    scan.read("logs/rank-3.log", io.BytesIO(b"[rank3]: " + line + b"\n"), node="gpu04")
    (found,) = scan.findings
    assert (found.entry.id, list(found.hosts)) == (entry, [])
    assert (found.entry.role is not ErrorRole.CONSEQUENCE) == is_cause


@pytest.mark.parametrize(
    "line",
    [
        b"Lockdown: systemd-logind: hibernation is restricted; see man kernel_lockdown.7",
        b"Lockdown: dmidecode: /dev/mem,kmem,port is restricted; see man kernel_lockdown.7",
        b"Unable to determine the device handle for GPU 0000:0B:00.0: Insufficient Permissions",
    ],
)
def test_what_ends_no_job_is_not_explained(line: bytes) -> None:
    assert found_ids(scanned(line + b"\n")) == []


def test_a_watchdog_and_a_host_name_are_no_causes_beside_another_error() -> None:
    lines = (
        b"[rank0]:[W ProcessGroupGloo.cpp:721] Warning: Unable to resolve hostname to a (local) address.\n"
        b"[rank0]: RuntimeError: CUDA error: device-side assert triggered\n"
        b"[rank0]:[E602 11:17:52.39 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0 Rank 0]  failure detected by watchdog"
        b" at work sequence id: 2847 PG status: last enqueued work: 2855, last completed work: 2846\n"
    )
    assert found_ids(scanned(lines)) == [
        "torch-device-assert",
        "gloo-no-own-address",
        "torch-watchdog-failure",
    ]


def test_colours_and_carriage_returns_do_not_hide_a_line() -> None:
    timeout = scanned(LOGS / "broken" / "gpu-lost.log").findings[1]
    assert (timeout.count, timeout.ranks) == (2, {3, 5})
    assert "\x1b" not in timeout.first.text
    bar = b"\r".join(b"epoch %d" % step for step in range(50)) + b"\rCUDA error: out of memory\rmore\n"
    (finding,) = scanned(bar).findings
    assert finding.first.text == "CUDA error: out of memory"


@pytest.mark.parametrize(
    ("line", "host", "rank"),
    [
        ("[1,3]<stderr>:gpu01:897:914 [2] NCCL WARN x", "gpu01", 3),
        ("[prterun-gpu01-4012@1,12]<stderr>: something", None, 12),
        ("[rank7]:[E1012 10:11:12.131 x.cpp:616] [Rank 7] y", None, 7),
        ("[gpu02:03211] *** Process received signal ***", "gpu02", None),
        ("[proxy:0:1@gpu02] HYDU_sock_connect", "gpu02", None),
        ("Nov 21 07:01:02 gpu07 kernel: NVRM: Xid", "gpu07", None),
        ("2026-11-21T07:01:02.123456+00:00 gpu08 sshd[1]: x", "gpu08", None),
        ("srun: error: gpu05: task 13: Exited with exit code 1", "gpu05", None),
        ("[2026-11-21 07:01:00] gpu02:5120:5166 [0] misc/ibvwrap.cc:278 NCCL WARN x", "gpu02", None),
        ("[12:34] not a host", None, None),
        ("just words", None, None),
    ],
)
def test_where_a_line_comes_from(line: str, host: str | None, rank: int | None) -> None:
    origin = origin_of(line)
    assert (origin.host, origin.rank) == (host, rank)


def rendered(scan: Scan) -> str:
    lines = explained.lines(explained.to_document(scan.files, scan.findings, scan.left_over))
    return "\n".join(line.text for line in lines)


def test_nothing_known_offers_the_first_and_last_lines_that_look_wrong() -> None:
    steps = b"".join(b"step %d: an unheard-of error\n" % step for step in range(20))
    kinds = b"".join(b"%s: it failed\n" % (b"a" * length) for length in range(1, 21))
    scan = scanned(steps + kinds + b"0 errors\nbye\n")
    assert scan.findings == []
    assert [line.number for line in scan.left_over] == [1, 21, 22, 23, 24, 36, 37, 38, 39, 40]
    shown = rendered(scan)
    assert "The catalogue of known errors matches no line" in shown
    assert "line 1: step 0: an unheard-of error" in shown


def test_unexplained_lines_come_before_consequences_and_not_beside_a_cause() -> None:
    shown = rendered(scanned(LOGS / "broken" / "unknown-cause-torchrun.log"))
    cause, consequence = shown.index("line 7: quorum.QuorumLost"), shown.index("* torch-child-failed")
    assert shown.index("The cause is not in the catalogue") < cause < consequence
    assert "Traceback" not in shown and "raise ChildFailedError" not in shown
    assert "possibly the cause" not in rendered(scanned(LOGS / "broken" / "memlock-on-one-node.log"))


def test_a_symptom_lists_what_is_possible_and_unexplained_lines_follow_it() -> None:
    shown = rendered(scanned(LOGS / "broken" / "dpkg-dkms.log"))
    symptom, unknown = shown.index("* dkms-build-failed"), shown.index("possibly the cause")
    assert shown.index("What failed; the line does not state why:") < symptom < unknown
    assert (
        unknown < shown.index("* dpkg-error-code") and "\n  may be " in shown and "Likely causes" not in shown
    )


def test_what_may_follow_from_a_cause_names_its_line() -> None:
    scan = scanned(
        b"x\nRuntimeError: CUDA out of memory\n" + b"CUDA error: an illegal memory access was encountered\n"
    )
    document = explained.to_document(scan.files, scan.findings, scan.left_over)
    assert document["findings"][1]["role"] == "consequence"
    assert document["findings"][1]["may_follow"] == {"id": "cuda-out-of-memory", "file": "log0", "line": 2}
    assert "line 3; may follow from line 2 (cuda-out-of-memory)" in rendered(scan)


def test_a_line_is_found_whatever_piece_it_falls_into() -> None:
    error = b"gpu01: CUDA error: out of memory\n"
    for before in (PIECE_BYTES - 60, PIECE_BYTES - 20, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES - 10):
        filler = b"x" * 99 + b"\n"
        lines, rest = divmod(before, len(filler))
        text = filler * lines + b"y" * max(0, rest - 1) + b"\n" + error + filler * 3
        (finding,) = scanned(text).findings
        assert finding.first.number == lines + 2


# In a process of its own, whose peak is that of the scan. tracemalloc would take 15 times as long.
ENDLESS = """
import io, re
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan

peaks = []

class Endless(io.RawIOBase):
    def read(self, size=-1):
        peaks.append(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
        return b"error " * (size // 6) if len(peaks) <= 16 else b""

scan = Scan(topic_files.load())
scan.read("endless", Endless())
print(scan.files[0].size_bytes, *peaks)
"""


def test_a_log_without_an_end_of_line_takes_bounded_memory() -> None:
    done = subprocess.run(
        (sys.executable, "-c", ENDLESS), cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    size, *peaks = map(int, done.stdout.split())
    assert size > 15 * 10**6
    assert peaks[0] < peaks[4], "a piece takes memory"
    assert peaks[-1] - peaks[4] < 3 * PIECE_BYTES


def test_lines_that_end_by_carriage_returns_take_no_longer() -> None:
    line = b"step 12: error: the loss is 0.5"
    used = {}
    for end in (b"\n", b"\r"):
        text = (line + end) * (PIECE_BYTES // len(line))
        began = time.process_time()
        scanned(text)
        used[end] = time.process_time() - began
    assert used[b"\r"] < 5 * used[b"\n"] + 0.1


@pytest.mark.parametrize("seed", range(VARIANTS))
def test_no_mixture_of_line_ends_and_marks_takes_longer_or_hides_a_known_error(seed: int) -> None:
    draw = random.Random(seed)
    ends = draw.choices(
        ("\n", "\r", "\r\n", "\n\r", "\x0b", "\x85", "\u2028", "\x00", "\x1b[2K\r", "\x08"), k=3
    )
    words = draw.choices(
        (
            "error",
            "step 12: error: the loss is 0.5",
            "warn",
            " fault",
            "\x1b[31m",
            "\x1b]0;",
            "[",
            "0,",
            "a:" * 9,
        ),
        k=3,
    )
    text = "".join(draw.choice(words) + draw.choice(ends) for _ in range(3000))
    text += "\nCUDA error: out of memory\n"
    began = time.process_time()
    scan = scanned(text.encode())
    assert time.process_time() - began < 0.5, (ends, words)
    (finding,) = scan.findings
    assert finding.first.text == "CUDA error: out of memory"
    assert all(len(line.text) <= 400 and len(line.text.splitlines()) <= 1 for line in scan.left_over), (
        scan.left_over
    )


HOSTILE = (
    lambda text, size: text + " " + "a" * size,
    lambda text, size: "a" * size + text,
    lambda text, size: (text + " ") * (size // 20),
    lambda text, size: text + "(" * (size // 2) + ")" * (size // 2),
    lambda text, size: text + "0," * (size // 2),
    lambda text, size: text + " from peer " + "x " * (size // 2),
    lambda text, size: "[" * (size // 2) + text + "]" * (size // 2),
)


def seconds_of_a_scan(entries: tuple[KnownError, ...], line: str) -> float:
    scan = Scan(entries)
    started = time.process_time()
    scan.read("long", io.BytesIO(line.encode() + b"\n"))
    return time.process_time() - started


def test_no_pattern_takes_long_over_a_long_line() -> None:
    """A pattern sees a window of the line, whatever the length of the line."""
    slow = [
        (entry.id, match.text, number)
        for entry in ENTRIES
        for match in entry.match
        for number, hostile in enumerate(HOSTILE)
        if seconds_of_a_scan((entry,), hostile(match.text, 4 * WINDOW_CHARACTERS)) > 0.5
    ]
    assert slow == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_whole_catalogue_takes_little_over_a_line_of_200_kb(hostile: Callable[[str, int], str]) -> None:
    assert seconds_of_a_scan(ENTRIES, hostile("NCCL WARN", 200_000)) < 0.5


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"x.*y", r"x.+", r"(?:ab)*c", r"(a){2,}", "("])
def test_patterns_that_may_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        Match(text="some text", pattern=pattern)


def test_a_fixed_text_that_is_too_short_without_its_digits_is_refused() -> None:
    assert Match(text="Xid 7 79").text == "Xid 7 79"
    with pytest.raises(ValidationError):
        Match(text="Xid 79")


def test_an_entry_whose_example_does_not_match_is_refused() -> None:
    with pytest.raises(ValidationError, match="no example"):
        KnownError(
            id="x",
            tool="tool",
            match=(Match(text="not in it"),),
            examples=("something else",),
            meaning="It means.",
            cause="Because.",
            fix="Do something.",
            sources=("https://example.org/",),
        )


def test_random_bytes_and_nul_are_read_to_the_end() -> None:
    noise = bytes(range(256)) * 300
    scan = scanned(noise + b"\nHost key verification failed.\n")
    assert found_ids(scan) == ["ssh-host-key-unknown"]


def test_the_document_is_json_and_counts_by_role() -> None:
    scan = scanned(LOGS / "broken" / "memlock-on-one-node.log")
    document = json.loads(json.dumps(explained.to_document(scan.files, scan.findings, scan.left_over)))
    assert document["schema"] == "clusterctl.explain/1"
    roles = {"fault": 0, "cause": 1, "symptom": 0, "slow-path": 0, "note": 0, "consequence": 4}
    assert document["summary"] == roles
    first = document["findings"][0]
    assert first["check"] == "clusterctl check INVENTORY --only memlock"
    assert first["first"]["line"] == 4
    assert [ErrorRole(finding["role"]).rank for finding in document["findings"]] == [1, 5, 5, 5, 5]


def test_lines_that_differ_in_addresses_and_hashes_are_found_as_each_line_alone() -> None:
    """A log of a megabyte is folded by its hexadecimal numbers; a line of its own is not."""
    drawn = random.Random(5)
    examples = [(entry.id, example) for entry in ENTRIES for example in entry.examples if "\n" not in example]
    ids = (
        lambda: f"{drawn.getrandbits(64):016x}",
        lambda: f"[{drawn.getrandbits(48):012x}]",
        lambda: f"0x7f{drawn.getrandbits(40):010x}",
        lambda: str(uuid.UUID(int=drawn.getrandbits(128))),
    )
    alone = {
        name for name, example in examples if found_ids(scanned(f"{example} {ids[0]()}".encode())) == [name]
    }
    assert len(alone) > 0.9 * len({name for name, _ in examples})
    log = "\n".join(f"{drawn.choice(ids)()} said {ids[0]()}" for _ in range(40_000))
    log += "\n" + "\n".join(f"{example} {drawn.choice(ids)()}" for name, example in examples if name in alone)
    assert set(found_ids(scanned(log.encode()))) >= alone
    folded = _without_numbers("\n".join(f"at {ids[n % 4]()} of {ids[n % 4]()}" for n in range(4000)).encode())
    assert len(set(folded)) <= 4


def test_no_text_of_the_catalogue_is_a_hexadecimal_number() -> None:
    hexadecimal = re.compile(r"(?<![0-9A-Za-z_])(?:0x[0-9a-f]{9,}|[0-9a-f]{8,})(?![0-9A-Za-z_])")
    assert [match.text for entry in ENTRIES for match in entry.match if hexadecimal.search(match.text)] == []
