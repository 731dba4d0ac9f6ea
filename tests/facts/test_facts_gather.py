"""Gathering over a transport: one exec, a second only when asked; output without an answer; documents and folding."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from clusterctl.errors import FactsError
from clusterctl.facts import document
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Become, Node
from clusterctl.transport.base import Completed, FailureKind, TransportError


class ThisMachine:
    """A transport to this machine that counts its commands; ``as_root`` keeps the user."""

    node = "here"

    def __init__(self, shell: tuple[str, ...] = ("sh",)) -> None:
        self.shell = shell
        self.calls: list[tuple[tuple[str, ...], bool]] = []

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        as_root: bool = False,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        assert argv == ("sh",)
        assert env is None and on_line is None
        self.calls.append((argv, as_root))
        done = subprocess.run(self.shell, input=stdin, capture_output=True, timeout=timeout_s, check=False)
        return Completed(argv, done.returncode, done.stdout, done.stderr, 0.1)

    def put(self, data: bytes, path: str, *, mode: int = 0o644, as_root: bool = False) -> None:
        raise AssertionError("gathering writes nothing")

    def get(self, path: str, *, as_root: bool = False) -> bytes:
        raise AssertionError("gathering fetches nothing")

    def close(self) -> None:
        pass


NODE = Node(name="here", address="localhost")


@pytest.fixture(scope="module")
def facts() -> NodeFacts:
    return gather(ThisMachine(), NODE)


def test_one_exec_gathers_everything() -> None:
    transport = ThisMachine()
    found = gather(transport, NODE, escalate=False)
    assert transport.calls == [(("sh",), False)]
    assert found.name == "here"
    # It is one clock: whatever the exec took, the bounds hold it. Both are rounded to a millisecond, uptimes to ten.
    assert found.clock.offset_s is not None and found.clock.uncertainty_s is not None
    assert abs(found.clock.offset_s) <= found.clock.uncertainty_s + 0.05
    assert 0 <= found.clock.uncertainty_s <= found.duration_s + 0.05


@pytest.mark.parametrize(
    ("become", "execs"), [(Become.AUTO, [False, True]), (Become.SUDO, [False, True]), (Become.NONE, [False])]
)
def test_a_second_exec_only_for_what_needs_a_password(
    become: Become, execs: list[bool], namespaces: None
) -> None:
    no_sudo = "mount --bind /bin/false /usr/bin/sudo 2>/dev/null"
    as_nobody = "exec setpriv --reuid=65534 --regid=65534 --clear-groups sh"
    nobody = ("unshare", "-m", "sh", "-c", f"{no_sudo}; {as_nobody}")
    transport = ThisMachine(nobody)
    found = gather(transport, NODE.model_copy(update={"become": become}), escalate=True)
    assert [as_root for _, as_root in transport.calls] == execs
    assert found.root.uid == 65534
    assert found.root.way == ("sudo" if len(execs) == 2 else "none")


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        (("sh", "-c", "echo This account is not available; exit 1"), "This account is not available"),
        (("sh", "-c", "head -c 5000"), "did not run to its end"),
        (("sh", "-c", "echo No such shell >&2; exit 127"), "exit status 127: No such shell"),
    ],
    ids=["nologin", "cut", "no-shell"],
)
def test_a_node_without_facts_is_a_failure_with_its_words(shell: tuple[str, ...], words: str) -> None:
    with pytest.raises(TransportError, match="did not run to its end") as caught:
        gather(ThisMachine(shell), NODE)
    assert caught.value.failure.kind is FailureKind.PROTOCOL
    assert words in caught.value.failure.message
    assert caught.value.hint


def test_a_document_is_json_and_comes_back_equal(facts: NodeFacts, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(document.to_document(facts)), encoding="utf-8")
    assert document.from_document(json.loads(path.read_text(encoding="utf-8"))) == facts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "clusterctl.facts/0"}, "schema"),
        ({"surprise": 1}, "surprise"),
        ({"memory": {}}, "memory"),
        ({"duration_s": "soon"}, "duration_s"),
    ],
)
def test_a_document_of_another_shape_is_refused(
    facts: NodeFacts, change: dict[str, object], words: str
) -> None:
    with pytest.raises(FactsError, match=words) as caught:
        document.from_document({**document.to_document(facts), **change})
    assert caught.value.hint
