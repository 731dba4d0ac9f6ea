"""No inventory ends the command in a traceback: ten thousand of them, through the command line's own entry.

Half are valid inventories that were damaged (keys, values, characters, bytes), half are built from the model by
introspection, so that a new field is tried the day it is added. Every example is written to a file and goes
through one whole command line: load, --limit, and a verb that contacts nothing.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import random
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from soak import SOAK
from typer.main import get_command
from valid_inventory import TREE, VALID

from clusterctl.cli import main as cli
from clusterctl.inventory.field_types import NodeName
from clusterctl.inventory.model import GroupSpec, InventoryFile, NodeSettings, NodeSpec
from clusterctl.inventory.requirement_settings import ClusterFileSettings

EXAMPLES = 10_000 if SOAK else 1_000
EXIT_CODES = {0, 2, 4, 9}
"""Fine, usage, inventory, artifact: nothing else can come of an inventory whose nodes are not contacted."""

NASTY = (
    *("gpu[1-", "a[2-1]", "gpu[1-99999999]", "[", "]", "a,,b", "-x", "--help", "~", "~nobody/x", "[::1]:22"),
    *(
        "a\x00b",
        "=",
        "<<",
        "1:30",
        "",
        " ",
        "\n",
        "$(id)",
        "`id`",
        "; id",
        "'",
        '"',
        "\\",
        "%n",
        "\u202e",
        "\ud800",
    ),
    *(
        "9" * 40,
        "1e999",
        "nan",
        "0x10",
        "é",
        "a" * 1100,
        "::",
        "^",
        "=,",
        "10de:*",
        "class:03",
        "net.a",
        "/",
        "..",
    ),
    *("{{ x }}", "{% raw %}", "\t", "#", "!!python/object:os.system", "on", "null", "inf", "-0", "\ufeff"),
)
VERBS = (
    ("render", "docker-run", "--image", "i"),
    ("render", "docker-run"),
    ("render", "docker-run", "--image", "i", "--style", "accl", "--rendezvous-port", "29500"),
    ("render", "hostfile", "--slots", "4"),
    ("render", "hostfile", "--dialect", "mpich", "--slots", "2"),
    ("render", "hostfile", "--addresses", "--json", "--slots", "1"),
    ("render", "ssh-config"),
    ("render", "ssh-config", "--known-hosts", "/k", "--json"),
    ("render", "mpirun", "--slots", "1", "--", "true"),
    ("render", "mpirun", "--slots", "2", "--model", "resnet50", "--two-d", "--library", "nccl"),
    ("render", "mpirun", "--collective", "all_reduce", "--library", "gloo", "--ssh-config", "/c"),
)
LIMITS = (*[None] * 12, "gpu[01-02]", "rack1", "spare", "gpu[", "nobody", "gpu01,,", "\x00", "")


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.sampled_from(NASTY),
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(),
        st.text(max_size=12),
    )


WILD = st.recursive(
    scalars(),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3)
    ),
    max_leaves=5,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from places(value, (*path, index))


POOL = (
    *(
        "a",
        "gpu1",
        "n0",
        "10.0.0.1",
        "/x/y",
        "eth0",
        "^lo",
        "mlx5_0",
        "=mlx5_0:1",
        "8g",
        "A_B",
        "me@h:22",
        "15b3:*",
    ),
    *(
        "net.core.rmem_max",
        "host:/x",
        "570.1",
        "https://mirror.example.org/x",
        "docker",
        "unlimited",
        "-1",
        "5:6",
    ),
)


@functools.cache
def accepted(kind: Any) -> tuple[str, ...]:
    """Return the texts of the pool, hostile ones among them, that a type of the model takes."""
    adapter = TypeAdapter(kind)
    taken = []
    for text in (*POOL, *NASTY):
        try:
            adapter.validate_python(text)
        except ValidationError:
            continue
        taken.append(text)
    return tuple(taken)


class Builder:
    """Values for a type of the model: mostly such as it takes, now and then any."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick

    def model(self, kind: type[BaseModel], more: float) -> dict[str, Any]:
        built = {}
        for name, info in kind.model_fields.items():
            # A file or directory on this machine has to exist: test_mutations covers those that are not.
            if name in ("identity_file", "source") and kind is not ClusterFileSettings:
                continue
            if info.is_required() or self.pick.random() < more:
                whole = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
                built[name] = self.value(whole)
        if self.pick.random() < 0.01:
            built[self.pick.choice(("nmae", "x", "", "gpu"))] = self.any()
        return built

    def value(self, kind: Any) -> Any:
        if self.pick.random() < 0.01:
            return self.any()
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self.value(self.pick.choice(arguments))
        if origin is Annotated and get_origin(arguments[0]) in (Union, types.UnionType, dict, tuple):
            return self.value(arguments[0])
        if origin is Literal:
            return self.pick.choice(arguments)
        if origin is tuple:
            return [self.value(arguments[0]) for _ in range(self.pick.randrange(3))]
        if origin is dict:
            return {self.key(arguments[0]): self.value(arguments[1]) for _ in range(self.pick.randrange(3))}
        plain = arguments[0] if origin is Annotated else kind
        if isinstance(plain, type) and issubclass(plain, Enum):
            return self.pick.choice([member.value for member in plain])
        if isinstance(plain, type) and issubclass(plain, BaseModel):
            return self.model(plain, 0.3)
        if plain is str:
            return self.pick.choice(accepted(kind) or NASTY)
        numbers = {bool: (True, False), int: (1, 8, 22), float: (1.5, 100.0), type(None): (None,)}
        return self.pick.choice(numbers[plain])

    def key(self, kind: Any) -> str:
        return self.pick.choice(accepted(kind) if self.pick.random() < 0.97 else NASTY)

    def any(self) -> Any:
        return self.pick.choice((*NASTY, None, True, 0, -1, 1.5, [], {}, ["a"], {"a": 1}, [[]], float("inf")))

    def inventory(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"version": 1, "nodes": []}
        for number in range(self.pick.randrange(1, 4)):
            node = self.model(NodeSpec, 0.15)
            if self.pick.random() < 0.95:
                node["name"] = self.pick.choice((f"n{number}", f"n{number}", f"gpu{number}[1-2]"))
            if self.pick.random() < 0.8:
                node["address"] = None
            if self.pick.random() < 0.6:
                node["gpus"] = 8
            tree["nodes"].append(node)
        if self.pick.random() < 0.5:
            tree["defaults"] = self.model(NodeSettings, 0.15)
        if self.pick.random() < 0.4:
            tree["groups"] = {
                self.key(NodeName): {**self.model(GroupSpec, 0.15), "nodes": tree["nodes"][0]["name"]}
            }
        if self.pick.random() < 0.05:
            tree |= self.model(InventoryFile, 0.5)
        return tree


def damaged(data: st.DataObject) -> bytes:
    how = data.draw(st.sampled_from((3, 3, 3, 0, 1, 2)))
    if how == 0:
        tree = copy.deepcopy(TREE)
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from([place for place in places(tree) if place] or [()]))
            if not path:
                break
            parent = tree
            for part in path[:-1]:
                parent = parent[part]
            action = data.draw(st.integers(0, 3))
            if action > 1:
                parent[path[-1]] = data.draw(WILD)
            elif action == 1:
                del parent[path[-1]]
            elif isinstance(parent, dict):
                parent[data.draw(st.text(max_size=8))] = parent.pop(path[-1])
        return dumped(tree)
    if how == 1:
        text = VALID
        for _ in range(data.draw(st.integers(1, 4))):
            start, length = data.draw(st.integers(0, len(VALID))), data.draw(st.integers(0, 12))
            new = data.draw(
                st.sampled_from(
                    [*"&*!|>%@`{}[],:?-#'\"\t\n", "<<: *x", "&a ", "*a", "--- ", "!!set ", *NASTY]
                )
            )
            text = text[:start] + new + text[start + length :]
        return text.encode("utf-8", "surrogatepass")
    if how == 2:
        at, raw = data.draw(st.integers(0, len(VALID))), VALID.encode()
        return raw[:at] + data.draw(st.binary(max_size=40)) + raw[at:]
    return dumped(Builder(random.Random(data.draw(st.binary(min_size=8, max_size=8)))).inventory())


def dumped(tree: Any) -> bytes:
    """Write as JSON, which YAML contains (but for infinities and bare surrogates), ten times faster than YAML."""
    return json.dumps(tree).encode()


def run(file: Path, content: bytes, verb: tuple[str, ...], limit: str | None) -> int:
    file.write_bytes(content)
    options = ("-i", str(file), *(("--limit", limit) if limit is not None else ()))
    return cli.main([*verb[:2], *options, *verb[2:]])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("fuzz") / "inventory.yaml"


@pytest.mark.soak
def test_ten_thousand_inventories(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, int] = {}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="CLUSTERCTL_FUZZ_SEED" not in os.environ,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        content = damaged(data)
        verb, limit = data.draw(st.sampled_from(VERBS)), data.draw(st.sampled_from(LIMITS))
        code = run(file, content, verb, limit)
        seen[code] = seen.get(code, 0) + 1
        assert code in EXIT_CODES, (verb, limit)

    with open(os.devnull, "w", encoding="utf-8") as sink, monkeypatch.context() as patch:  # noqa: PTH123
        patch.setattr("sys.stdout", sink)
        patch.setattr("sys.stderr", sink)
        # Typer builds its commands again at every call, which a process does once: 20 ms of every example.
        built = get_command(cli.application())
        patch.setattr(cli, "application", lambda verb: built)
        attempt()
    # A fuzz whose inventories are all refused would prove little of what comes after loading.
    assert sum(seen.values()) >= EXAMPLES, seen
    assert seen[0] >= EXAMPLES // 20, seen
    assert seen[0] + seen[9] >= EXAMPLES // 8, seen
