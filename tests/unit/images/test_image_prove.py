"""What the script in the containers prints, and what is made of several nodes' answers."""

from __future__ import annotations

import os

from clusterctl.images import prove
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.transport.local import LocalTransport

PATH = "/opt/clusterctl/library/python/collective_core/lib/libcollective_core.so"
GOOD, OTHER = "a" * 64, "b" * 64


def rank(number, *, sha256=GOOD, path=PATH, pid=None):
    return f"rank\t{number}\t{100 + int(number) if pid is None else pid}\t{sha256}\t{path}"


def node(*lines, version="collective_core 0.1.0", image="sha256:1", expected=GOOD):
    text = "\n".join((*lines, f"version\t{version}"))
    return prove.parse(text, name="a", container="c", image=image, library="ccore", expected_sha256=expected)


def against(**nodes):
    return prove.judge(HostMap(nodes))


def test_the_same_library_everywhere_has_nothing_against_it() -> None:
    assert against(a=node(rank(0), rank(1)), b=node(rank(2), rank(10))) == ()


def test_ranks_come_in_their_order() -> None:
    assert [r.rank for r in node(rank(10), rank(2), rank(0)).ranks] == ["0", "2", "10"]


def test_the_node_in_the_minority_is_named() -> None:
    found = against(
        a=node(rank(0), expected=None),
        b=node(rank(1, sha256=OTHER), expected=None),
        c=node(rank(2), expected=None),
    )
    assert found == (f"b: sha256 is {OTHER}, elsewhere {GOOD}",)


def test_a_rank_that_loads_another_than_the_images_is_named() -> None:
    (first, *_rest) = against(
        a=node(rank(0)), b=node(rank(1, sha256=OTHER, path="/usr/lib/libcollective_core.so"))
    )
    assert first.startswith(
        "b: rank 1 (pid 101) has /usr/lib/libcollective_core.so mapped, which is not the image's"
    )


def test_two_of_them_in_one_process_are_two_too_many() -> None:
    found = against(a=node(rank(0), rank(0, path="/usr/lib/libcollective_core.so")))
    assert any("pid 100 has 2 of them mapped" in finding for finding in found)


def test_a_node_without_ranks_proves_nothing() -> None:
    assert against(a=node(rank(0)), b=node()) == ("b: no process has the library ccore mapped",)


def test_other_images_and_other_versions_are_named() -> None:
    found = against(
        a=node(rank(0)), b=node(rank(1), image="sha256:2"), c=node(rank(2), version="collective_core 0.0.9")
    )
    assert found == (
        "b: image is sha256:2, elsewhere sha256:1",
        "c: version is collective_core 0.0.9, elsewhere collective_core 0.1.0",
    )


def test_a_file_that_was_replaced_is_named() -> None:
    (found, *_rest) = against(a=node(rank(0, path=f"{PATH} (deleted)", sha256="")))
    assert "has been removed" in found


def test_what_is_loaded_beside_the_library_is_the_same_in_every_rank() -> None:
    def beside(number, name, sha256=GOOD):
        return rank(number, sha256=sha256, path=f"/lib/{name}").replace("rank", "beside", 1)

    cuda, front = "libcollective_core_cuda.so", "libcollective_core_nccl.so"
    both = [rank(0), rank(1), *(beside(number, name) for name in (cuda, front) for number in (0, 1))]
    proof = node(*both)
    assert against(a=proof) == ()
    assert [(one.rank, one.name) for one in proof.beside] == [
        ("0", cuda),
        ("0", front),
        ("1", cuda),
        ("1", front),
    ]
    assert against(a=node(*both), b=node(rank(2), beside(2, cuda, OTHER))) == (
        f"b: sha256 of {cuda} is {OTHER}, elsewhere {GOOD}",
        f"b: rank 2 (pid 102) does not have {front} mapped, but other ranks do",
    )


def test_a_node_that_does_not_answer_is_no_part_of_the_comparison() -> None:
    assert against(a=node(rank(0)), b=Failure(FailureKind.TIMEOUT, "b: no answer")) == ()


# An engine whose store calls the image $STORE; all stores have the same layers but where $LAYERS says otherwise.
DOCKER = """#!/bin/sh
case "$1 $2" in
  "container inspect")
    printf '[{"Image": "sha256:%s", "State": {"Running": true}, ' "$STORE"
    printf '"Config": {"Labels": {"clusterctl.library": "ccore"}}}]' ;;
  "image inspect") [ "$5" = "sha256:$STORE" ] && printf '["sha256:base", "sha256:%s"]' "$LAYERS" ;;
  *) printf 'rank\\t0\\t7\\tsum\\t/opt/lib.so\\nversion\\t1.0\\n' ;;
esac
"""


def test_engines_with_different_stores_have_the_same_image(monkeypatch, tmp_path) -> None:
    program = tmp_path / "docker"
    program.write_text(DOCKER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def asked(store, layers="top"):
        monkeypatch.setenv("STORE", store)
        monkeypatch.setenv("LAYERS", layers)
        here = Node(name=store, address="localhost", connection="local")
        return prove.ask(here, LocalTransport(here), library=None, slots=1, timeout_s=30.0)

    one, same, other = asked("overlay2"), asked("containerd"), asked("another", "changed")
    assert prove.judge(HostMap({"a": one, "b": same})) == ()
    (found,) = prove.judge(HostMap({"a": one, "b": same, "c": other}))
    assert found.startswith("c: image is sha256:")
