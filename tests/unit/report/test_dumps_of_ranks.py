"""What ``explain`` makes of NCCL's RAS and torch's flight recorder: the ranks that differ, and nothing executed."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from clusterctl.cli import main as cli
from clusterctl.report.known_errors import flight_recorder, ras

LOGS = Path(__file__).parent / "logs"
DUMPS = LOGS / "flight_recorder"
DIVERGENCE = "flight recorder: group 0 (default_pg), call 4: rank 2 called broadcast [[8]], most ranks all_reduce [[4]]"


def explained(capsys: pytest.CaptureFixture[str], *logs: Path) -> dict[str, Any]:
    cli.main(["explain", "--json", *map(str, logs)])
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("form", ["", ".json"])
def test_the_first_divergence_of_real_dumps_is_named(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of torch 2.13 on three ranks with gloo: the fourth call of rank 2 was another one."""
    (found,) = explained(capsys, *(DUMPS / f"nccl_trace_rank_{rank}{form}" for rank in range(3)))["findings"]
    assert (found["id"], found["ranks"], found["hosts"]) == ("torch-flight-recorder", [2], [])
    assert found["first"]["text"] == DIVERGENCE


def test_dumps_in_a_folder_are_found_and_one_alone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(3):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes((DUMPS / f"nccl_trace_rank_{rank}").read_bytes())
    assert explained(capsys, tmp_path)["findings"][0]["first"]["text"] == DIVERGENCE
    assert cli.main(["explain", str(tmp_path / "nccl_trace_rank_0")]) == 2
    assert "give the dumps of all ranks" in capsys.readouterr().err


def dump(rank: int, *calls: tuple[int, str], group: str = "default_pg") -> flight_recorder.RankDump:
    entries = [
        {"process_group": ["0", group], "collective_seq_id": number, "profiling_name": f"nccl:{name}"}
        for number, name in calls
    ]
    return flight_recorder.read(rank, json.dumps({"entries": entries}).encode())


def test_ranks_that_did_not_come_that_far_and_full_recorders_are_told_apart() -> None:
    long = [(number, "all_reduce") for number in range(1, 9)]
    assert flight_recorder.first_divergences([dump(0, *long), dump(1, *long[3:])]) == []
    assert flight_recorder.first_divergences([dump(0, *long), dump(1, *long[:6]), dump(2, *long[:6])]) == [
        "flight recorder: group 0 (default_pg), call 7: rank 1 did not call all_reduce [], 1 other ranks did",
        "  rank 2 did not call it",
    ]
    (line,) = flight_recorder.first_divergences([dump(0, (1, "barrier")), dump(1, (1, "all_reduce"))])
    assert line.endswith("call 1: rank 1 called all_reduce [], rank 0 barrier []")
    assert flight_recorder.first_divergences([dump(0, *long), dump(1)])[0].startswith(
        "flight recorder: group 0 (default_pg), call 1: rank 1 did not call"
    )
    assert flight_recorder.first_divergences([dump(0, *long, group="tp"), dump(1)]) == []


def test_a_number_that_no_rank_has_is_no_call() -> None:
    """torch also counts groups of sends and receives, which are not compared."""
    calls = [(number, "all_reduce") for number in (1, 2, 4, 1 << 62)]
    assert flight_recorder.first_divergences([dump(0, *calls), dump(1, *calls)]) == []
    (line,) = flight_recorder.first_divergences([dump(0, *calls), dump(1, *calls[:2])])
    assert "call 4: rank 1 did not call all_reduce" in line


def test_a_damaged_or_lonely_dump_in_a_folder_hides_no_other_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = (DUMPS / "nccl_trace_rank_0").read_bytes()
    (tmp_path / "nccl_trace_rank_0").write_bytes(content)
    (tmp_path / "nccl_trace_rank_1").write_bytes(content[:700])
    (tmp_path / "rank-1.log").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n")
    assert cli.main(["explain", "--json", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert [one["id"] for one in json.loads(shown.out)["findings"]] == ["cuda-out-of-memory"]
    assert "skipped: cannot read" in shown.err and "one rank's dump" in shown.err
    assert cli.main(["explain", str(tmp_path / "nccl_trace_rank_1")]) == 3
    assert "give the other dumps without it" in capsys.readouterr().err


def test_dumps_of_two_jobs_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = []
    for job, source in (("a", 0), ("b", 2)):
        for rank in range(2):
            logs.append(tmp_path / job / f"nccl_trace_rank_{rank}")
            logs[-1].parent.mkdir(exist_ok=True)
            logs[-1].write_bytes((DUMPS / f"nccl_trace_rank_{source}").read_bytes())
    assert cli.main(["explain", str(tmp_path)]) == 2
    assert "two different dumps are of rank 0" in capsys.readouterr().err
    # The same dump in two forms is one.
    twice = [DUMPS / f"nccl_trace_rank_{rank}{form}" for rank in range(3) for form in ("", ".json")]
    assert explained(capsys, *twice)["findings"][0]["first"]["text"] == DIVERGENCE


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_calls_anything_is_refused_and_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for protocol in range(2, 6):
        log = tmp_path / "nccl_trace_rank_0"
        log.write_bytes(pickle.dumps({"entries": [Hostile(tmp_path / "made")]}, protocol))
        assert cli.main(["explain", str(log)]) == 3
        assert "it holds more than plain values" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps({"entries": []}, 2)[:-3], "its pickle is"),
        (b"\x80\x02}h\x07entries.", "its pickle is damaged"),
        (b"\x80\x02]X\x07\x00\x00\x00entriesu.", "its pickle is damaged"),
        (pickle.dumps({"entries": [{"process_group": 5}]}, 2), "not a dump of the flight recorder"),
        (b'{"pg_config": {}, "entries": 5}', "not a dump of the flight recorder"),
    ],
)
def test_a_damaged_dump_is_an_error(content: bytes, reason: str) -> None:
    with pytest.raises(flight_recorder.DumpError, match=reason):
        flight_recorder.read(0, content)


def test_a_list_in_many_places_of_a_pickle_takes_little_memory() -> None:
    sizes: list[list[int]] = [list(range(100_000))] * 100_000
    entry = {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 1,
        "profiling_name": "nccl:all_reduce",
    }
    content = pickle.dumps({"entries": [{**entry, "input_sizes": sizes}] * 100}, 2)
    assert len(content) < 10**6
    (call,) = flight_recorder.read(0, content).calls["0 (default_pg)"].values()
    assert len(call) == 120


def test_a_text_in_many_places_of_a_pickle_is_cut_once() -> None:
    entry = {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 1,
        "profiling_name": "nccl:" + "a" * 10**6,
        "input_sizes": [[1 << 2000]],
    }
    content = pickle.dumps({"entries": [entry] * 5}, 2)
    with pytest.raises(flight_recorder.DumpError, match="not a dump"):
        flight_recorder.read(0, content)
    del entry["input_sizes"]
    (call,) = flight_recorder.read(0, pickle.dumps({"entries": [entry]}, 2)).calls["0 (default_pg)"].values()
    assert len(call) == 120


def test_a_key_that_is_no_text_is_refused_before_it_is_hashed() -> None:
    pairs = b"".join(b"r%sj%s\x86" % ((number.to_bytes(4, "little"),) * 2) for number in range(80))
    with pytest.raises(flight_recorder.DumpError, match="damaged"):
        flight_recorder.read(0, b"\x80\x02}K\x01K\x01\x86" + pairs + b"K\x01s.")


def test_a_pickle_of_something_else_is_refused_as_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.bin").write_bytes(pickle.dumps({"weights": [1.0] * 100}, 4))
    assert cli.main(["explain", str(tmp_path / "model.bin")]) == 3
    assert "a pickle of Python, which is not loaded" in capsys.readouterr().err


def test_the_json_of_ras_names_dead_failed_and_late_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    document = explained(capsys, LOGS / "ras" / "status.json")
    named = [
        (one["id"], one["role"], one["ranks"], one["hosts"], one["gpus"]) for one in document["findings"]
    ]
    host = ["172.16.64.245"]
    assert named == [
        ("nccl-ras-dead", "cause", [1], host, ["1"]),
        ("nccl-ras-error", "consequence", [2], host, ["2"]),
        ("nccl-ras-mismatch", "consequence", [3], host, ["3"]),
    ]
    assert document["findings"][2]["first"]["text"].startswith(
        "RAS: behind: communicator 0xae94423cfbb2ef4a: rank 3"
    )


def test_many_names_of_operations_are_no_state_of_ranks() -> None:
    ranks = [{"rank": 0, "collective_counts": {f"k{number}": 1 for number in range(65)}}, {"rank": 1}]
    text = json.dumps({"nccl_version": "2.28", "communicators": [{"hash": "0x1", "ranks": ranks}]})
    assert ras.lines_of(text.encode()) is None


def test_other_json_is_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ras, "MOST_BYTES", 40)
    (tmp_path / "x.log").write_text('{"nccl_version": "2.28"}\n' + "step\n" * 20 + "CUDA out of memory\n")
    (found,) = explained(capsys, tmp_path / "x.log")["findings"]
    assert (found["id"], found["first"]["line"]) == ("cuda-out-of-memory", 22)


def test_other_json_is_read_as_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ras.lines_of(b'{"nccl_version": 5}') is None and ras.lines_of(b"{") is None
    (tmp_path / "x.log").write_text('{"nccl_version": "CUDA out of memory"}\n')
    assert explained(capsys, tmp_path / "x.log")["findings"][0]["id"] == "cuda-out-of-memory"


def test_the_text_of_ras_names_the_ranks_below_its_heading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As NCCL's documentation and an issue of NCCL print it."""
    (tmp_path / "ras.log").write_text(
        "DEAD\n"
        "  1 job process is considered dead (unreachable via the RAS network)\n"
        "  Process 3487984 on node 172.16.64.213 managing GPU 5\n"
        "\n"
        "#0-0 (fa93daea854b060b) MISMATCH\n"
        "  Communicator ranks have different AllGather operation counts\n"
        "  30 ranks have launched up to operation 640\n"
        "  2 ranks have launched up to operation 641\n"
        "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124\n"
        "  Rank 13 -- GPU 5 managed by process 323033 on node 10.137.190.124\n"
    )
    dead, apart = explained(capsys, tmp_path / "ras.log")["findings"]
    assert (dead["id"], dead["hosts"], dead["gpus"]) == ("nccl-ras-dead", ["172.16.64.213"], ["5"])
    assert (apart["id"], apart["role"]) == ("nccl-ras-mismatch", "consequence")
    assert (apart["id"], apart["ranks"], apart["gpus"]) == ("nccl-ras-mismatch", [12, 13], ["4", "5"])
    assert "2 ranks have launched up to operation 641; Rank 12" in apart["first"]["text"]
