"""The tuner between real ranks: one choice on all of them, kept on the disk, and differences told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Program = Callable[..., Any]
ROW = re.compile(
    r"^(?P<kind>\w+) bytes 2\^(?P<size>\d+) dtypes [^:]+: (?P<phase>\w+) (?P<algorithm>\w+)(?P<us> [\d.]+ us)?$",
    re.M,
)
# No test runs so long that drift is looked for: on a busy machine times drift, and a search starts again.
QUICK = {"CCORE_AUTOTUNE_PROFILE_CALLS": "4", "CCORE_AUTOTUNE_WINDOW_CALLS": "1000"}
TUNED = {"CCORE_AUTOTUNE": "1", **QUICK}
KINDS = {("all_reduce", 10), ("reduce", 10), ("broadcast", 10)}
# Rounds for three searches, one after the other: 8 calls of each candidate (at most 9 for all_reduce, 5 for reduce, 4
# for broadcast), then 4 of each of the at most 3 that are left.
ENOUGH = "240"


def two_nodes(rank: int) -> Mapping[str, str]:
    return {"CCORE_NODE_ID": f"node{rank % 2}", "CCORE_SOCKET_ADDR": f"127.0.0.{2 + rank % 2}"}


def one_node(_: int) -> Mapping[str, str]:
    return {}


def said(ended: list[Any]) -> list[str]:
    assert [one.returncode for one in ended] == [0] * len(ended), ended
    return [json.loads(one.output.splitlines()[-1]) for one in ended]


def rows(text: str) -> dict[tuple[str, int], re.Match[str]]:
    return {(row["kind"], int(row["size"])): row for row in ROW.finditer(text)}


@pytest.fixture
def tuned(program: Program, ranks: Any) -> Callable[..., list[Any]]:
    """Run the program with so many ranks and such an environment; may be called several times."""

    def run(*arguments: str, size: int = 3, where: Any = one_node, **environment: str) -> list[Any]:
        ranks.processes.clear()
        program("tuned.py", *arguments, size=size, per_rank=lambda rank: {**where(rank), **environment})
        ended: list[Any] = ranks.finish()
        return ended

    return run


@pytest.mark.parametrize("mode", ["time", "filter", "profile"])
@pytest.mark.parametrize("where", [one_node, two_nodes])
def test_all_ranks_make_one_choice(tuned: Callable[..., list[Any]], where: Any, mode: str) -> None:
    size = 4 if where is two_nodes else 3
    texts = said(tuned(ENOUGH, size=size, where=where, AIACC_AUTOTUNE_PERF_MODE=mode, **TUNED))
    found = [rows(text) for text in texts]
    assert set(found[0]) == KINDS
    for other in found:
        assert {key: row["algorithm"] for key, row in other.items()} == {
            key: row["algorithm"] for key, row in found[0].items()
        }
    assert {row["phase"] for row in found[0].values()} == {"fixed"}, texts[0]
    assert f"autotune 1 mode {mode}" in texts[0]
    share = re.search(r"communication ([\d.]+) % of the time", texts[0])
    assert (share is not None) == (mode == "profile")
    assert share is None or 0 < float(share[1]) <= 100


def test_nothing_is_tuned_unless_asked_for(tuned: Callable[..., list[Any]]) -> None:
    assert said(tuned("3", size=2)) == ["autotune 0 mode time\n"] * 2


def test_a_search_on_demand(tuned: Callable[..., list[Any]]) -> None:
    text = said(tuned(ENOUGH, "again", size=2, **QUICK))[0]
    assert "autotune 0" in text
    assert {row["phase"] for row in rows(text).values()} == {"fixed"}, text


def test_an_algorithm_that_the_user_names_is_not_tuned(tuned: Callable[..., list[Any]]) -> None:
    text = said(tuned("5", CCORE_ALGO="broadcast:chain", **TUNED))[0]
    assert {kind for kind, _ in rows(text)} == {"all_reduce", "reduce"}


def test_choices_are_kept(tuned: Callable[..., list[Any]], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    kept = {
        "AIACC_CONFIG_CACHE_DISABLE": "0",
        "CCORE_CACHE_DIR": str(folder),
        "CCORE_CACHE_MODEL": "a model",
        "CCORE_CACHE_MODEL_BYTES": "97",
    }
    first = rows(said(tuned(ENOUGH, **TUNED, **kept))[0])
    (file,) = folder.iterdir()
    content = file.read_text()
    assert re.search(r"^scale 3 ranks on 1 nodes: 3, shm shm, shared memory, cma .*$", content, re.M)
    assert len(re.findall(r"^choice [0-9a-f]{16} .* = \w+ \d+$", content, re.M)) == len(KINDS)

    # Another job takes them from its first operation on, on all ranks, and leaves the file alone.
    texts = said(tuned("1", **kept))
    for text in texts:
        assert {key: (row["phase"], row["algorithm"]) for key, row in rows(text).items()} == {
            key: ("fixed", row["algorithm"]) for key, row in first.items()
        }
    assert file.read_text() == content

    # One of another model, or of another size of it, does not.
    for different in ({"CCORE_CACHE_MODEL": "another"}, {"CCORE_CACHE_MODEL_BYTES": "98"}):
        assert said(tuned("1", **{**kept, **different})) == ["autotune 0 mode time\n"] * 3
    assert [file] == list(folder.iterdir())


def test_a_damaged_file_is_written_anew(tuned: Callable[..., list[Any]], tmp_path: Path) -> None:
    kept = {"CCORE_CACHE_DISABLE": "0", "CCORE_CACHE_DIR": str(tmp_path), "CCORE_DEBUG": "WARN"}
    said(tuned(ENOUGH, size=2, **TUNED, **kept))
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    file.write_text(whole.replace("choice ", "chance ", 1))
    ended = tuned(ENOUGH, size=2, **TUNED, **kept)
    said(ended)
    assert "is ignored and will be replaced: its checksum is wrong" in ended[0].output
    assert "chance" not in file.read_text()
    assert file.read_text().splitlines()[:4] == whole.splitlines()[:4]


def test_choices_of_two_models_are_in_one_file(tuned: Callable[..., list[Any]], tmp_path: Path) -> None:
    kept = {"CCORE_CACHE_DISABLE": "0", "CCORE_CACHE_DIR": str(tmp_path)}
    for model in ("one", "two"):
        said(tuned(ENOUGH, size=2, **TUNED, **kept, CCORE_CACHE_MODEL=model))
    (file,) = tmp_path.iterdir()
    models = re.findall(r"^choice ([0-9a-f]{16}) all_reduce", file.read_text(), re.M)
    assert len(models) == len(set(models)) == 2


def test_a_folder_that_cannot_be_is_no_error(tuned: Callable[..., list[Any]], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = {
        "CCORE_CACHE_DISABLE": "0",
        "CCORE_CACHE_DIR": str(tmp_path / "file" / "folder"),
        "CCORE_DEBUG": "WARN",
    }
    ended = tuned(ENOUGH, size=2, **TUNED, **kept)
    said(ended)
    assert ended[0].output.count("choices are not kept: cannot make") == 1


@pytest.mark.parametrize(
    ("odd", "says"),
    [("set", ("tuner_set()", "tuner_set()")), ("retune", ("tuner_retune()", "all_reduce(count=300"))],
)
def test_a_rank_that_differs_is_told(
    tuned: Callable[..., list[Any]], odd: str, says: tuple[str, str]
) -> None:
    for text in said(tuned("2", odd, **TUNED)):
        assert "ranks called different operations" in text
        assert all(part in text for part in says), text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"AIACC_AUTOTUNE_PERF_MODE": "speed"},
            "AIACC_AUTOTUNE_PERF_MODE=speed: expected time, filter or profile",
        ),
        ({"HOROVOD_AUTOTUNE": "2"}, "HOROVOD_AUTOTUNE=2: expected a whole number from 0 to 1"),
        ({"CCORE_CACHE_DISABLE": "no"}, "CCORE_CACHE_DISABLE=no: expected a whole number from 0 to 1"),
    ],
)
def test_settings_that_cannot_be_understood(
    tuned: Callable[..., list[Any]], given: dict[str, str], says: str
) -> None:
    (ended,) = tuned("1", size=1, **given)
    assert ended.returncode != 0
    assert says in ended.output
