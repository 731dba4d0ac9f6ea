"""Prove that every rank on every node uses the same library: mapped file, checksum, version line."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from clusterctl import resources
from clusterctl.documents.image import LibraryProof, ProvenNode
from clusterctl.errors import ImageError
from clusterctl.images import library as libraries
from clusterctl.images.build import LABEL
from clusterctl.images.library import Library
from clusterctl.images.on_node import ENVIRONMENT
from clusterctl.inventory.model import Node
from clusterctl.text.foreign import json_value
from clusterctl.text.typed_inventory import filled
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Completed, HostMap, Transport

_PID = re.compile(r"[0-9]{1,10}")


def ask(node: Node, transport: Transport, *, library: str | None, slots: int, timeout_s: float) -> ProvenNode:
    """Return what the processes in a node's container have mapped.

    ``library`` None: the one that the image's label names. ``slots``: how many processes to start where no rank
    runs. Raise ImageError where there is no container, or no library that is known.
    """
    name = node.container.name
    if name is None:
        raise ImageError(
            f"{node.name}: its container has no name", hint="set container.name in the inventory, then up"
        )
    state = _inspect(node, transport, name, timeout_s)
    with understanding(node.name, f"the container {name}"):
        labels = dict(state["Config"].get("Labels") or {})
        image_id = str(state["Image"])
    known = _library(node, library or labels.get(LABEL))
    said = _docker(
        transport,
        (
            *("docker", "exec", "-i"),
            *_variables(
                MAPPED=known.mapped,
                BESIDE=known.beside or "",
                VERSION_PROGRAM=known.version_program or "",
                LOADER=resources.text("templates", "docker", "prove.py"),
                PYTHON=node.python or "python3",
                SLOTS=str(slots),
            ),
            *(name, "sh", "-s"),
        ),
        timeout_s,
        stdin=resources.text("templates", "docker", "prove.sh").encode(),
    )
    if said.returncode != 0:
        raise ImageError(
            f"{node.name}: cannot inspect the container {name}: {said.error_text.strip()[-300:]}"
        )
    expected = labels.get(f"{LABEL}.sha256") if labels.get(LABEL) == known.name else None
    image = _layers(node, transport, image_id, timeout_s)
    return parse(
        said.text, name=node.name, container=name, image=image, library=known.name, expected_sha256=expected
    )


def parse(
    text: str, *, name: str, container: str, image: str, library: str, expected_sha256: str | None
) -> ProvenNode:
    """Parse the output of the script into a proof."""
    found: dict[str, list[LibraryProof]] = {"rank": [], "beside": []}
    versions, errors = [], []
    for line in text.splitlines():
        fields = line.split("\t")
        if fields[0] in found and len(fields) == 5 and _PID.fullmatch(fields[2]):
            found[fields[0]].append(LibraryProof(fields[1], int(fields[2]), fields[3], fields[4]))
        elif fields[0] == "version" and len(fields) == 2:
            versions.append(fields[1])
        elif fields[0] == "error":
            errors.append(" ".join(fields[1:]))
    for proofs in found.values():
        proofs.sort(key=lambda rank: (len(rank.rank), rank.rank, rank.pid, rank.path))
    unique = tuple(dict.fromkeys(versions))
    return ProvenNode(
        name=name, error=None, container=container, image=image, library=library, expected_sha256=expected_sha256,
        ranks=tuple(found["rank"]), versions=unique, errors=tuple(dict.fromkeys(errors)),
        started=bool(found["rank"]) and all(rank.rank.startswith("slot ") for rank in found["rank"]),
        beside=tuple(found["beside"]),
    )  # fmt: skip


def judge(answers: HostMap[ProvenNode]) -> tuple[str, ...]:
    """Return the problems of the proof, each with its node; none if all ranks use one library.

    Where nodes differ, those in the minority are named.
    """
    proofs = answers.values_by_node
    found: list[str] = []
    for node, proof in proofs.items():
        found += [f"{node}: {error}" for error in proof.errors]
        if not proof.ranks:
            found.append(f"{node}: no process has the library {proof.library} mapped")
        for rank in proof.ranks:
            where = f"{node}: rank {rank.rank} (pid {rank.pid})"
            if rank.path.endswith(" (deleted)") or not rank.sha256:
                found.append(f"{where} has {rank.path} mapped, which has been removed")
            elif proof.expected_sha256 is not None and rank.sha256 != proof.expected_sha256:
                found.append(
                    f"{where} has {rank.path} mapped, which is not the image's: sha256 {rank.sha256[:12]}, "
                    f"not {proof.expected_sha256[:12]}"
                )
        for pid, number in Counter(rank.pid for rank in proof.ranks).items():
            if number > 1:
                paths = ", ".join(rank.path for rank in proof.ranks if rank.pid == pid)
                found.append(f"{node}: pid {pid} has {number} of them mapped: {paths}")
    found += _unlike("image", {n: (p.image,) for n, p in proofs.items()})
    found += _unlike("sha256", {n: [r.sha256 for r in p.ranks] for n, p in proofs.items()})
    found += _unlike("path", {n: [r.path for r in p.ranks] for n, p in proofs.items()})
    found += _unlike("version", {n: p.versions for n, p in proofs.items()})
    found += _beside(proofs)
    return tuple(found)


def _beside(proofs: dict[str, ProvenNode]) -> list[str]:
    """Name the ranks that lack a further library that others have, and the nodes where it is another file."""
    found: list[str] = []
    for name in sorted({one.name for proof in proofs.values() for one in proof.beside}):
        sums: dict[str, Sequence[str]] = {}
        for node, proof in proofs.items():
            having = [one for one in proof.beside if one.name == name]
            sums[node] = [one.sha256 for one in having]
            pids = {one.pid for one in having}
            found += [
                f"{node}: rank {rank.rank} (pid {rank.pid}) does not have {name} mapped, but other ranks do"
                for rank in proof.ranks
                if rank.rank.isdigit() and rank.pid not in pids
            ]
        found += _unlike(f"sha256 of {name}", sums)
    return found


def _unlike(what: str, values: dict[str, Sequence[str]]) -> list[str]:
    """Return the nodes whose value differs from the majority; in a tie the first node's value counts."""
    count = Counter(value for several in values.values() for value in dict.fromkeys(several))
    if len(count) < 2:
        return []
    usual = count.most_common(1)[0][0]
    return [
        f"{node}: {what} is {value}, elsewhere {usual}"
        for node, several in values.items()
        for value in dict.fromkeys(several)
        if value != usual
    ]


def _library(node: Node, name: str | None) -> Library:
    if name is None:
        raise ImageError(
            f"{node.name}: the image does not say which library it has",
            hint="name it: --library nccl; images of 'clusterctl image build' have it in their labels",
        )
    return libraries.load(name)


def _inspect(node: Node, transport: Transport, name: str, timeout_s: float) -> dict[str, Any]:
    said = _docker(transport, ("docker", "container", "inspect", name), timeout_s)
    if said.returncode == 127:
        raise ImageError(
            f"{node.name}: docker not found", hint=filled("clusterctl bootstrap INVENTORY --only docker")
        )
    if said.returncode != 0:
        message = said.error_text.strip()[-300:]
        missing = "no such container" in message.lower()
        raise ImageError(
            f"{node.name}: container {name} not found" if missing else f"{node.name}: {message}",
            hint=filled("clusterctl up INVENTORY starts it", "") if missing else None,
        )
    with understanding(node.name, f"the container {name}"):
        state: dict[str, Any] = json_value(said.text)[0]
        running = state["State"]["Running"]
    if not running:
        raise ImageError(
            f"{node.name}: the container {name} does not run", hint=f"read `docker logs {name}` on the node"
        )
    return state


def _layers(node: Node, transport: Transport, image: str, timeout_s: float) -> str:
    said = _docker(
        transport, ("docker", "image", "inspect", "-f", "{{json .RootFS.Layers}}", image), timeout_s
    )
    if said.returncode != 0:
        raise ImageError(
            f"{node.name}: the image of its container is gone: {said.error_text.strip()[-300:]}",
            hint="clusterctl down, image distribute, up",
        )
    with understanding(node.name, "the layers of its container's image"):
        return "sha256:" + hashlib.sha256("\n".join(json_value(said.text)).encode()).hexdigest()


def _docker(transport: Transport, argv: tuple[str, ...], timeout_s: float, stdin: bytes = b"") -> Completed:
    said = transport.run(argv, stdin=stdin, timeout_s=timeout_s, env=ENVIRONMENT)
    if said.returncode != 0 and "permission denied" in said.error_text.lower():
        return transport.run(argv, stdin=stdin, timeout_s=timeout_s, env=ENVIRONMENT, as_root=True)
    return said


def _variables(**values: str) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in ("-e", f"{name}={value}"))
