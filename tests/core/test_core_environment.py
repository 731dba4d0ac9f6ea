"""The table of environment variables: what is made of it is current, and both sides read by its rules."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from collective_core.communicator import Communicator
from collective_core.environment_table import UNUSED, VARIABLES, Kind, Reader
from collective_core.unique_id import get_unique_id

from clusterctl.facts.vendors import tables
from collective_core import CollectiveCoreError
from collective_core import environment as variables

CORE = Path(__file__).resolve().parents[2] / "collective_core"
NOT_VARIABLES = {"CCORE_VERSION_TEXT"}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", CORE / "scripts" / "generate_environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_of_the_table_is_current(generator: ModuleType) -> None:
    renew = "run python collective_core/scripts/generate_environment.py"
    assert generator.PAGE.read_text() == generator.page(generator.PAGE.read_text()), renew
    assert generator.TABLE.read_text() == generator.c_table(), renew


def names_read(folder: str) -> set[str]:
    names: set[str] = set()
    for path in (CORE / folder).rglob("*"):
        if path.suffix in {".cc", ".h", ".py"} and path.name != "environment_table.py":
            # all_reduce_perf's setting() asks the library for what it has taken, and reads no variable.
            text = path.read_text().replace(' setting("', " setting(")
            names |= set(re.findall(r"\"((?:CCORE|LIGHT|AIACC|HOROVOD)_[A-Z0-9_]+)\"", text))
    return names - NOT_VARIABLES


def test_what_the_sources_read_is_in_the_table_and_the_other_way_round() -> None:
    readers = {
        "src": {Reader.LIBRARY}, "perf": {Reader.PERF}, "python": {Reader.PYTHON, Reader.HOROVOD},
        "cuda": {Reader.CUDA}, "nccl": {Reader.NCCL}, "nccl_plugins": {Reader.PLUGINS},
    }  # fmt: skip
    for folder, parts in readers.items():
        documented = {variable.name for variable in VARIABLES if parts & set(variable.readers)}
        assert names_read(folder) == documented, folder


def test_every_name_has_one_meaning() -> None:
    names = [name for variable in VARIABLES for name in (variable.name, *variable.aliases)]
    names += [unused.name for unused in UNUSED]
    assert len(names) == len(set(names))
    for variable in VARIABLES:
        assert variable.name.startswith("CCORE_")
        assert bool(variable.choices) == (variable.kind is Kind.CHOICE)


def test_clusterctl_knows_the_names() -> None:
    (table,) = [one for one in tables.variables().libraries if one.library == "collective_core"]
    assert list(table.names) == sorted(variable.name for variable in VARIABLES)


def test_a_mistyped_variable_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CCORE_TCP_STREAM", "4")
    monkeypatch.setenv("CCORE_OF_MY_PROGRAM", "1")
    monkeypatch.setenv("LIGHT_2D_ALLREDUCE", "1")
    variables.warn_of_misspelt.cache_clear()  # a test before this one may have made a communicator
    for _ in range(2):
        with Communicator(0, 1, get_unique_id()):
            pass
    warning = "CCORE_TCP_STREAM is not a variable of collective_core; did you mean CCORE_TCP_STREAMS?"
    assert [record.getMessage() for record in caplog.records] == [warning]


def test_python_reads_by_the_rules(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    own, alias = "CCORE_INIT_TIMEOUT_S", "HOROVOD_GLOO_TIMEOUT_SECONDS"
    monkeypatch.delenv(own, raising=False)
    monkeypatch.delenv(alias, raising=False)
    assert variables.text(own) == ""
    assert variables.integer(own, 5, 1, 10) == 5
    monkeypatch.setenv(alias, "7")
    assert variables.integer(own, 5, 1, 10) == 7
    monkeypatch.setenv(own, "")  # empty is unset
    assert variables.number(own, 5.0, 1.0, 10.0) == 7.0
    monkeypatch.setenv(own, "7")
    assert variables.integer(own, 5, 1, 10) == 7
    assert not caplog.records  # two that agree give no reason to warn
    monkeypatch.setenv(own, "8")
    assert [variables.integer(own, 5, 1, 10) for _ in range(3)] == [8] * 3
    assert [record.getMessage() for record in caplog.records] == [f"{own}=8 counts, not its alias {alias}=7"]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (lambda: variables.integer("CCORE_SHM_RING_BYTES", 1, 1, 9), "10", "a whole number from 1 to 9"),
        (lambda: variables.integer("CCORE_SHM_RING_BYTES", 1, 1, 9), "1.5", "a whole number from 1 to 9"),
        (lambda: variables.number("CCORE_SHM_RING_BYTES", 1, 0, 9), "nan", "a number from 0 to 9"),
        (lambda: variables.number("CCORE_SHM_RING_BYTES", 1, 0, 9), "much", "a number from 0 to 9"),
        (lambda: variables.flag("CCORE_SHM_RING_BYTES", fallback=False), "2", "0 or 1"),
    ],
)
def test_python_refuses_what_it_does_not_understand(
    monkeypatch: pytest.MonkeyPatch, read: object, value: str, expected: str
) -> None:
    monkeypatch.setenv("CCORE_SHM_RING_BYTES", value)
    assert callable(read)
    with pytest.raises(CollectiveCoreError, match=rf"CCORE_SHM_RING_BYTES={value}: expected {expected}"):
        read()


@pytest.mark.parametrize(("value", "on"), [("1", True), ("Yes", True), ("0", False), ("off", False)])
def test_python_understands_switches(monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv("CCORE_SHM_RING_BYTES", value)
    assert variables.flag("CCORE_SHM_RING_BYTES", fallback=not on) is on


ALONE = """
from collective_core.communicator import Communicator, get_unique_id
for _ in range(2):
    Communicator(0, 1, get_unique_id()).destroy()
"""


@pytest.mark.parametrize(
    ("given", "returncode", "says"),
    [
        ({"HOROVOD_GLOO_TIMEOUT_SECONDS": "soon"}, 1, "HOROVOD_GLOO_TIMEOUT_SECONDS=soon: expected seconds"),
        ({"HOROVOD_GLOO_TIMEOUT_SECONDS": "soon", "CCORE_INIT_TIMEOUT_S": "9"}, 0,
         "CCORE_INIT_TIMEOUT_S=9 counts, not its alias HOROVOD_GLOO_TIMEOUT_SECONDS=soon"),
        ({"HOROVOD_GLOO_TIMEOUT_SECONDS": "9", "CCORE_INIT_TIMEOUT_S": "9"}, 0, ""),
        ({"CCORE_SIMD": "sse"}, 1, "CCORE_SIMD=sse: expected scalar, avx2, avx512 or neon"),
        ({"CCORE_SIMD": "scalar"}, 0, ""),
        ({"CCORE_DEBUG": "loud"}, 1, "CCORE_DEBUG=loud: expected WARN, VERSION or INFO"),
    ],
)  # fmt: skip
def test_the_library_reads_by_the_same_rules(
    environment: dict[str, str], given: dict[str, str], returncode: int, says: str
) -> None:
    clean = {name: value for name, value in environment.items() if name != "CCORE_INIT_TIMEOUT_S"}
    done = subprocess.run(
        (sys.executable, "-c", ALONE), env={**clean, "CCORE_DEBUG": "WARN", **given},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == returncode, done.stderr
    if says:
        assert done.stderr.count(says) == 1, done.stderr
    else:
        assert "counts, not its alias" not in done.stderr


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"CCORE_DEBUG": "version"}, 2),
        ({"ACCL_LOG_LEVEL": "INFO"}, 2),
        ({"HOROVOD_LOG_LEVEL": "debug"}, 2),
        ({"HOROVOD_LOG_LEVEL": "warning"}, 0),
        ({"HOROVOD_LOG_LEVEL": "fatal"}, 0),
        ({"CCORE_DEBUG": "WARN", "HOROVOD_LOG_LEVEL": "trace"}, 0),  # differ, and no line can report it
    ],
)
def test_levels_of_the_log(environment: dict[str, str], given: dict[str, str], lines: int) -> None:
    done = subprocess.run(
        (sys.executable, "-c", ALONE), env={**environment, **given},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("rank 0 of 1") == lines, done.stderr


IN_ANOTHER_LANGUAGE = """
import locale
import numpy
from collective_core.communicator import Communicator
locale.setlocale(locale.LC_ALL, "")
assert locale.localeconv()["decimal_point"] == ","
with Communicator.from_environment() as comm:
    data = numpy.ones(4, dtype="f4")
    comm.topk_all_reduce(data, data, None)
    print(next(line for line in comm.dump_config().splitlines() if line.startswith("CCORE_TIMEOUT_S")))
assert locale.localeconv()["decimal_point"] == ","
"""


def test_numbers_have_a_point_in_programs_of_any_language(ranks: Any, tmp_path: Path) -> None:
    german, links = tmp_path / "de_DE.UTF-8", tmp_path / "links.txt"
    subprocess.run(
        ("localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", german), check=True, timeout=60
    )
    links.write_text("X 2.5\n2.5 X\n")
    given = {
        "LOCPATH": str(tmp_path),
        "LC_ALL": german.name,
        "CCORE_TIMEOUT_S": "30.5",
        "CCORE_TOPK_RATIO": "0.25",
        "CCORE_LINK_MATRIX": str(links),
    }
    ranks.start((sys.executable, "-c", IN_ANOTHER_LANGUAGE), 2, lambda _: given)
    for one in ranks.finish():
        assert (one.returncode, one.output) == (0, "CCORE_TIMEOUT_S=30.5 (environment)\n"), one.output


MEET = "from collective_core.communicator import Communicator; Communicator.from_environment().destroy()"


@pytest.mark.parametrize("name", ["LIGHT_2D_ALLREDUCE", "HOROVOD_AUTOTUNE", "LIGHT_HIERARCHICAL_THRESHOLD"])
def test_a_rank_that_was_told_otherwise_than_rank_0_says_so(ranks: Any, name: str) -> None:
    ranks.start((sys.executable, "-c", MEET), 2, lambda rank: {"CCORE_DEBUG": "WARN", name: str(rank)})
    first, second = ranks.finish()
    differ = "rank 1 was given other settings for the choice of algorithms than rank 0, whose hold"
    assert differ in second.output, second.output
    assert differ not in first.output


CONFIGURED = """
import sys
from collective_core.communicator import Communicator, Transport, dump_config
print(dump_config())
with Communicator.from_environment(timeout_s=42.5, transport=Transport.TCP) as comm:
    text = comm.dump_config()
    part = comm.split(0)
    assert part.dump_config() == text
    part.destroy()
sys.stdout.write(text)
"""


def test_the_dump_says_where_each_setting_came_from(ranks: Any, environment: dict[str, str]) -> None:
    def of_rank(rank: int) -> dict[str, str]:
        mine = {
            "LIGHT_2D_ALLREDUCE": str(rank),
            "CCORE_SHM_RING_BYTES": "8192",
            "CCORE_AUTOTUNE_WARMUP_CALLS": "7",
        }
        return mine if rank == 0 else {"LIGHT_2D_ALLREDUCE": "1"}

    ranks.start((sys.executable, "-c", CONFIGURED), 2, of_rank)
    first, second = ranks.finish()
    assert (first.returncode, second.returncode) == (0, 0), first.output + second.output
    alone, joined = first.output.split("\n\n")
    names = [variable.name for variable in VARIABLES if Reader.LIBRARY in variable.readers]
    for text in (alone, joined, second.output.split("\n\n")[1]):
        assert [line.partition("=")[0] for line in text.splitlines()] == names
    assert "CCORE_TIMEOUT_S=300 (default)\n" in alone
    assert "CCORE_JOB_SECRET=*** (environment)" in alone.splitlines()
    assert "CCORE_TIMEOUT_S=42.5 (cc_config)\n" in joined
    assert "CCORE_TRANSPORT=tcp (cc_config)\n" in joined
    assert "CCORE_2D=0 (environment, as LIGHT_2D_ALLREDUCE)\n" in joined
    assert "CCORE_SHM_RING_BYTES=8192 (environment)\n" in joined
    of_second = second.output.split("\n\n")[1]
    assert "CCORE_2D=0 (rank 0, whose value counts for all)\n" in of_second
    assert "CCORE_AUTOTUNE_WARMUP_CALLS=7 (rank 0, whose value counts for all)\n" in of_second
    assert "CCORE_SHM_RING_BYTES=262144 (default)\n" in of_second
