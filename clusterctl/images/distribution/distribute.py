"""Bringing an image to every node: from its registry, or from this machine through the nodes themselves."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.errors import ClusterctlError, ImageError
from clusterctl.images import engine as local_engine
from clusterctl.images.distribution import archive as archives
from clusterctl.images.distribution import relay, traces
from clusterctl.images.distribution.drive import Drive
from clusterctl.images.distribution.traces import Note
from clusterctl.images.on_node import EngineInfo, NodeEngine, NodeImage, brief, open_engine
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport
from clusterctl.transport.fanout import fan_out

Method = Literal["registry", "tree"]
_PULL_TIMEOUT_S = 3600.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Looked:
    """One node's engine, and its image of the requested name."""

    info: EngineInfo
    as_root: bool
    image: NodeImage | None


@dataclass(frozen=True, slots=True)
class DistributionOutcome:
    """The outcome on one node. ``source``: the sending node, "controller" or "registry"."""

    node: str
    status: Literal["present", "pulled", "received", "failed"]
    source: str | None = None
    sent_bytes: int = 0
    reason: str | None = None
    hint: str | None = None
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Distributed:
    """A completed distribution. ``controller_bytes``: bytes sent by this machine."""

    image: str
    method: Method | None
    outcomes: tuple[DistributionOutcome, ...]
    archive_bytes: int = 0
    controller_bytes: int = 0
    id: str | None = None


@dataclass(slots=True)
class Distribution:
    """One image, one set of nodes; ``talk`` receives messages, ``progress`` transient progress lines."""

    nodes: Sequence[Node]
    connect: Callable[[Node], Transport]
    name: str
    talk: Callable[[str], None]
    progress: Callable[[str], None]
    fanout: int = 64
    piece_bytes: int = relay.PIECE_BYTES
    watch: StepWatch = SILENT
    _outcomes: dict[str, DistributionOutcome] = field(default_factory=dict)

    def run(self, asked: Method | None = None) -> Distributed:
        """Distribute the image; a node that fails becomes a failed outcome and does not stop the others."""
        local = None if asked == "registry" else _local(self.name, needed=asked == "tree")
        with traces.left_by_others(self.nodes) as notes:
            looked = self._look(notes)
        wanted, method = local, choose(asked, self.name, local)
        if method == "registry":
            pulled = self._pull(looked)
            refused = {name: looked[name] for name, o in pulled.items() if o.status == "failed"}
            # The nodes may not reach the registry, but this machine has the image.
            if not (refused and asked is None and local is not None and "@" not in self.name):
                self._outcomes |= pulled
                return self._result("registry", wanted)
            self._outcomes |= {name: o for name, o in pulled.items() if name not in refused}
            first = next(pulled[name].reason for name in refused)
            self.talk(f"{len(refused)} nodes cannot pull ({first}): this machine sends the image to them")
            looked = refused
        if wanted is None:
            raise ImageError(f"this machine's engine has no image {self.name}", hint="build or pull it first")
        return self._spread(looked, wanted)

    def _result(self, method: Method | None, wanted: NodeImage | None) -> Distributed:
        ordered = tuple(self._outcomes[node.name] for node in self.nodes)
        return Distributed(self.name, method, ordered, id=wanted.id if wanted else None)

    def _on_all(self, nodes: Sequence[Node], work: Callable[[Node, Transport], T]) -> HostMap[T]:
        return fan_out(
            nodes, self.connect, work, fanout=self.fanout,
            on_start=lambda node: self.watch.begun(node.name), on_done=lambda node, _: self.watch.ended(node.name),
        )  # fmt: skip

    def _look(self, notes: Sequence[Note]) -> dict[str, Looked]:
        def work(node: Node, transport: Transport) -> Looked:
            for note in notes:
                if note.has(node):
                    relay.clean(transport, note.token, note.sha256, keep=True)
                    note.cleaned(node)
            engine = open_engine(transport)
            return Looked(engine.info, engine.as_root, engine.image(self.name))

        outcome = self._on_all(self.nodes, work)
        for name, failure in outcome.failures.items():
            self._outcomes[name] = _failed(name, failure)
        return outcome.values_by_node

    def _pull(self, looked: Mapping[str, Looked]) -> dict[str, DistributionOutcome]:
        """Pull on every node at once; a node whose tag names a different image than the first node's fails.

        Nodes are compared with the first node of their architecture, because a tag can name one image per architecture.
        """

        def work(node: Node, transport: Transport) -> tuple[NodeImage, bool]:
            seen = looked[node.name]
            engine = NodeEngine(transport, seen.as_root, seen.info)
            done = engine.docker("pull", "-q", self.name, timeout_s=_PULL_TIMEOUT_S)
            if done.returncode != 0:
                said = brief(done.error_text)
                raise ImageError(f"{self.name} cannot be pulled: {said}", hint=local_engine.hint(said))
            found = engine.image(self.name)
            if found is None:
                raise ImageError(f"{self.name} is missing after docker pulled it")
            return found, seen.image is not None and found.same_as(seen.image)

        nodes = [node for node in self.nodes if node.name in looked]
        outcome = self._on_all(nodes, work)
        outcomes: dict[str, DistributionOutcome] = {}
        firsts: dict[str, tuple[str, NodeImage]] = {}
        for name, answer in outcome.items():
            if isinstance(answer, Failure):
                outcomes[name] = _failed(name, answer)
                continue
            image, before = answer
            first = firsts.setdefault(image.architecture, (name, image))
            if image.same_as(first[1]):
                outcomes[name] = DistributionOutcome(name, "present" if before else "pulled", "registry")
            else:
                outcomes[name] = DistributionOutcome(
                    name, "failed",
                    reason=f"{self.name} is {image.id[:19]} here, but {first[1].id[:19]} on {first[0]}",
                    hint="the tag was moved meanwhile, or the nodes use different mirrors: pull again by digest",
                )  # fmt: skip
        return outcomes

    def _spread(self, looked: Mapping[str, Looked], wanted: NodeImage) -> Distributed:
        lacking: list[Node] = []
        for node in self.nodes:
            if node.name not in looked:
                continue
            seen = looked[node.name]
            if seen.image is not None and seen.image.same_as(wanted):
                self._outcomes[node.name] = DistributionOutcome(node.name, "present")
            elif seen.info.architecture != wanted.architecture:
                self._outcomes[node.name] = DistributionOutcome(
                    node.name, "failed",
                    reason=f"{node.name} is {seen.info.architecture}, but {self.name} is for {wanted.architecture}",
                    hint="build the image for that architecture, and exclude these nodes with --limit",
                )  # fmt: skip
            else:
                lacking.append(node)
        if not lacking:
            return self._result(None, wanted)
        drive = Drive(
            nodes=tuple(lacking),
            engines={node.name: (looked[node.name].as_root, looked[node.name].info) for node in lacking},
            connect=self.connect,
            image=wanted,
            name=self.name,
            token=secrets.token_hex(8),
            fanout=self.fanout,
            talk=self.talk,
            progress=self.progress,
            piece_bytes=self.piece_bytes,
            watch=self.watch,
        )
        done = drive.run()
        for name, failure in done.failures.items():
            self._outcomes[name] = _failed(name, failure)
        for name, (source, sent) in done.received.items():
            self._outcomes[name] = DistributionOutcome(name, "received", source, sent)
        return replace(
            self._result("tree", wanted),
            archive_bytes=done.archive_bytes,
            controller_bytes=done.controller_bytes,
        )


def _failed(name: str, failure: Failure) -> DistributionOutcome:
    away = failure.kind is not FailureKind.ERROR
    return DistributionOutcome(name, "failed", reason=failure.message, hint=failure.hint, unreachable=away)


def choose(asked: Method | None, name: str, local: NodeImage | None) -> Method:
    """Return the method: the requested one, or the registry, unless only this machine has the image.

    Raise ImageError for a digest without a registry, because a saved image loses its digest.
    """
    if asked == "tree" and "@" in name:
        raise ImageError(
            f"{name} is named by its digest, which a saved image does not keep",
            hint="name it by its tag, or use --method registry",
        )
    if asked is not None:
        return asked
    return "registry" if local is None or local.digests or "@" in name else "tree"


def _local(name: str, *, needed: bool) -> NodeImage | None:
    """Return this machine's image of that name; None without an image, or without an engine if not required."""
    try:
        with local_engine.connect() as client:
            found = archives.local_image(client, name)
    except ClusterctlError:
        if needed:
            raise
        return None
    if found is None and needed:
        raise ImageError(
            f"this machine's engine has no image {name}", hint="clusterctl image build, or docker pull"
        )
    return found
