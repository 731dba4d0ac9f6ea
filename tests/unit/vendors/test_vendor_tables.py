"""The tables of vendors' hardware: valid, each row with its source, no key twice, and complete for the code."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml
from pydantic import ValidationError

from clusterctl.facts.vendors import health, tables

FILES = sorted(tables.FOLDER.glob("*.yaml"))
READERS = {
    "gpus": tables.gpus,
    "nics": tables.nics,
    "clouds": tables.clouds,
    "repositories": tables.repositories,
    "health": health.tables,
    "variables": tables.variables,
}


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for table, rows in document.items():
        for row in rows:
            yield table, row


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _mappings(value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_valid_and_every_row_has_a_source(path):
    assert READERS[path.stem]()
    document = yaml.safe_load(path.read_text())
    found = list(_rows(document))
    assert found
    for table, row in found:
        assert len(row["source"]) > 5, (table, row)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_key_is_written_twice(path):
    for mapping in _mappings(yaml.compose(path.read_text())):
        keys = Counter(key.value for key, _ in mapping.value)
        assert max(keys.values()) == 1, keys


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_row_is_there_twice(path):
    """The first value of a row is its key, together with what narrows it."""
    document = yaml.safe_load(path.read_text())
    keys = Counter(
        (table, next(iter(row.values())), narrowed)
        for table, row in _rows(document)
        for narrowed in (row.get("distributions") or [row.get("cloud") or row.get("kind")])
    )
    assert max(keys.values()) == 1, keys


def test_every_file_has_its_reader():
    assert [path.stem for path in FILES] == sorted(READERS)


def test_the_tables_answer_whatever_the_code_may_ask():
    for trait in get_args(tables.GpuTrait):
        assert not tables.gpu_named("no GPU of this name", trait)
    for name in get_args(tables.DriverBranch.model_fields["change"].annotation):
        assert tables.branch(name) > 400
    for name in get_args(tables.GpuGeneration.model_fields["generation"].annotation):
        assert tables.first_device(name) > 0x1000
    for name in get_args(tables.NicFunction.model_fields["function"].annotation):
        assert tables.nic_function(name)
    for name in get_args(tables.RepositoryKey.model_fields["repository"].annotation):
        assert tables.repository_key(name, "debian12") is not None


def test_names_are_whole_words_in_any_case():
    assert tables.gpu_named("NVIDIA A100-PCIE-40GB", "without-switch")
    assert tables.gpu_named("NVIDIA GH200 480GB", "joined-to-its-cpu")
    assert not tables.gpu_named("NVIDIA H2000", "forgets-mig")


def test_a_row_without_source_or_with_an_unknown_key_is_refused():
    row = {"trait": "rack", "names": ["GB200"], "source": "a guide"}
    assert tables.GpuTraitRow.model_validate(row)
    for broken in ({**row, "source": ""}, {**row, "name": "GB200"}, {k: row[k] for k in ("trait", "names")}):
        with pytest.raises(ValidationError):
            tables.GpuTraitRow.model_validate(broken)


def test_importing_the_requirements_reads_no_table():
    program = (
        "import clusterctl.requirements.catalog, clusterctl.facts.vendors.tables as t\n"
        "print([f.cache_info().currsize for f in (t.gpus, t.nics, t.clouds, t.repositories, t.variables)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 0, 0, 0, 0]"
