"""Causes and consequences by the time of their lines; logs that are cut, mixed, or in another language."""

from __future__ import annotations

import io

import pytest

from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan
from clusterctl.report.known_errors.when import stamp_of

ENTRIES = topic_files.load()
CRASH = "[node1:04221] *** Process received signal ***"
AGENT = 'The value of the MCA parameter "plm_rsh_agent" was set to a path'
TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
OOM = "RuntimeError: CUDA out of memory"


def roles(*logs: str) -> list[tuple[str, str]]:
    scan = Scan(ENTRIES)
    for number, log in enumerate(logs):
        scan.read(f"log{number}", io.BytesIO(log.encode()))
    return [(found.entry.id, found.role.value) for found in scan.findings]


def test_a_crash_after_the_launcher_ended_is_its_consequence() -> None:
    assert roles(f"{AGENT}\n{CRASH}\n") == [
        ("ompi-launch-agent-missing", "cause"),
        ("mpi-rank-crashed", "consequence"),
    ]
    assert roles(f"{CRASH}\n{AGENT}\n") == [
        ("ompi-launch-agent-missing", "cause"),
        ("mpi-rank-crashed", "symptom"),
    ]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_stamps_tell_causes_of_different_logs_apart_in_any_order_of_the_logs(order: tuple[int, int]) -> None:
    logs = (
        f"2026-11-21 07:10:00,001 rank 3\n{OOM}\n",
        f"[rank0]:[E1121 07:20:01.13 ProcessGroupNCCL.cpp:616] {TIMEOUT}\n",
    )
    assert roles(*(logs[at] for at in order)) == [
        ("cuda-out-of-memory", "cause"),
        ("torch-collective-timeout", "consequence"),
    ]


def test_what_came_before_or_hours_apart_or_has_no_stamp_is_no_consequence() -> None:
    late = f"[E1121 09:20:01.13 x.cpp:616] {TIMEOUT}\n"
    early = f"[E1121 07:00:01.13 x.cpp:616] {TIMEOUT}\n"
    error = f"2026-11-21 07:10:00,001 rank 3\n{OOM}\n"
    for timeout in (late, early, f"{TIMEOUT}\n"):
        assert ("torch-collective-timeout", "symptom") in roles(error, timeout)


@pytest.mark.parametrize(
    ("first", "second", "is_before"),
    [
        ("2026-11-21T08:10:00+0100", "2026-11-21T07:10:05Z", True),
        ("2026-11-21T08:10:00+01:00", "2026-11-21T08:10:05Z", False),
        ("2026-11-21T02:10:00-05:00", "2026-11-21T07:10:05.5+00:00", True),
        # One of them has no zone: both clocks are taken to show one time.
        ("2026-11-21T08:10:00+0100", "2026-11-21 08:10:05", True),
        # No year, or one: a new year lies between.
        ("Dec 31 23:59:58", "Jan  1 00:00:03", True),
        ("Jan  1 00:00:03", "Dec 31 23:59:58", False),
        ("2026-12-31 23:59:58", "[E101 00:00:03.1", True),
    ],
)
def test_zones_and_a_new_year_do_not_turn_a_cause_into_a_consequence(
    first: str, second: str, is_before: bool
) -> None:
    found = roles(f"{second} x\n{TIMEOUT}\n", f"{first} rank 3\n{OOM}\n")
    assert (("torch-collective-timeout", "consequence") in found) == is_before


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        ("2026-11-21T07:10:00.5 x", "07:10:00.5"),
        ("[1,3]<stderr>:[2026-11-21 07:10:00] gpu02:5120:5166 [0] NCCL WARN", "07:10:00"),
        ("Nov 21 07:10:00 gpu07 kernel: NVRM", "07:10:00"),
        ("[Sat Nov 21 07:10:00 2026] watchdog: BUG", "07:10:00"),
        ("E1121 07:10:00.131 4100 api.py:869] failed", "07:10:00.131"),
        ("[rank0]:[E321 02:07:08.408271257 x.cpp:607]", None),
        ("[12345.678901] NVRM: Xid", None),
        ("[1581060992.288391] [gpu01:9817 :0] UCX ERROR", None),
        ("May 99 07:10:00 x", None),
        ("2026-13-41 07:10:00", None),
    ],
)
def test_stamps_are_read_in_the_forms_of_the_programs(line: str, clock: str | None) -> None:
    stamp, start = stamp_of(line), stamp_of("2026-11-21 00:00:00")
    assert start is not None
    seconds, base = stamp and stamp.seconds, start.seconds
    if line.startswith("[rank0]:[E321"):
        assert seconds is not None and seconds < base
    elif clock is None:
        assert seconds is None
    else:
        assert seconds is not None
        hours, minutes, rest = clock.split(":")
        assert seconds - base == pytest.approx(int(hours) * 3600 + int(minutes) * 60 + float(rest))


@pytest.mark.parametrize(
    "line",
    [
        "mkdir: das Verzeichnis '/x' kann nicht angelegt werden: Fehler bei der Ein-/Ausgabe",
        "bash: orted : commande introuvable, erreur 127",
        "tar: no se pudo abrir: fallo de entrada/salida",
        "impossibile aprire il file: errore di input/output",
        "python: ошибка: нет места на устройстве",
        "启动失败：设备上没有空间",
        "エラー: デバイスに空き領域がありません",
        "오류: 장치에 남은 공간이 없음",
    ],
)
def test_messages_in_other_languages_are_shown_and_not_explained(line: str) -> None:
    scan = Scan(ENTRIES)
    scan.read("x", io.BytesIO(f"step 1\n{line}\nstep 2\n".encode()))
    assert scan.findings == [] and [found.text for found in scan.left_over] == [line]


def test_a_line_that_is_cut_or_mixed_with_another_is_at_most_silent() -> None:
    error = "gpu01:4711:4790 [2] ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
    other = "gpu02:1:2 [0] NCCL INFO Channel 00/0"
    for cut in range(0, len(error), 3):
        for log in (error[:cut], error[cut:], f"{error[:cut]}{other}\n{error[cut:]}"):
            assert {name for name, _ in roles(log)} <= {"nccl-memlock", "verbs-memlock"}, log


def test_ranks_below_the_head_of_torchrun_are_named() -> None:
    log = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "============================================================\n"
        "train.py FAILED\n"
        "------------------------------------------------------------\n"
        "Failures:\n"
        "  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-11-21_07:10:00\n"
        "  host      : gpu05.cluster\n"
        "  rank      : 13 (local_rank: 5)\n"
        "  exitcode  : 1 (pid: 26612)\n"
    )
    scan = Scan(ENTRIES)
    scan.read("x", io.BytesIO(log.encode()))
    (found,) = scan.findings
    assert (list(found.hosts), found.ranks) == (["gpu05.cluster"], {13})
