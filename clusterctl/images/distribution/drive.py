"""Run a spread: parallel transfers and loads, each on its own connection; clean the nodes afterwards."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from clusterctl import log
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.errors import ClusterctlError, ImageError
from clusterctl.images import engine as local_engine
from clusterctl.images.distribution import archive as archives
from clusterctl.images.distribution import relay, traces
from clusterctl.images.distribution.archive import Archive, Compression
from clusterctl.images.distribution.relay import Relay
from clusterctl.images.distribution.spread import CONTROLLER, NEITHER_END, DistributionState, Transfer
from clusterctl.images.distribution.traces import Note
from clusterctl.images.on_node import EngineInfo, NodeEngine, NodeImage
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport, TransportError
from clusterctl.transport.fanout import fan_out, taken

_LOG = log.get(__name__)
_RETRY_PAUSE_S = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Driven:
    """The result: per node the source of the archive and its bytes, or why the node has no image."""

    received: dict[str, tuple[str, int]]
    failures: dict[str, Failure]
    archive_bytes: int
    controller_bytes: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """A transfer (or, without one, a load) that ended; ``failure`` if it failed."""

    transfer: Transfer | None
    node: str
    sent_bytes: int = 0
    failure: Failure | None = None
    blame: str | None = None
    crash: BaseException | None = None


@dataclass(slots=True)
class Drive:
    """One spread over nodes that lack the image. ``engines``: whether docker wants root, and what it is."""

    nodes: tuple[Node, ...]
    engines: Mapping[str, tuple[bool, EngineInfo]]
    connect: Callable[[Node], Transport]
    image: NodeImage
    name: str
    token: str
    fanout: int
    talk: Callable[[str], None]
    progress: Callable[[str], None]
    piece_bytes: int = relay.PIECE_BYTES
    watch: StepWatch = SILENT
    _relays: dict[str, Relay] = field(default_factory=dict)
    _failures: dict[str, Failure] = field(default_factory=dict)
    _received: dict[str, tuple[str, int]] = field(default_factory=dict)
    _open: set[Transport] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: queue.SimpleQueue[_Ended] = field(default_factory=queue.SimpleQueue)
    _controller_bytes: int = 0
    _interrupted: bool = False

    def run(self) -> Driven:
        """Spread and load; then remove all keys and archives from nodes that answer."""
        archive: Archive | None = None
        note = traces.begin(self.token, self.nodes)
        try:
            self._prepare()
            if self._relays:
                archive = self._save()
                note.sha256 = archive.sha256
                note.write()
                self._refuse_full(archive)
                self._connect_peers(archive)
                self._drive(archive)
        except BaseException:
            self._interrupted = True
            self._cut()
            if archive is not None:
                archive.remove()
            raise
        finally:
            try:
                self._clean(note)
            finally:
                note.close()
        if archive is not None:
            if self._failures:
                self.talk(f"{archive.path} stays for the nodes that failed: run it again, and it resumes")
            else:
                archive.remove()
        return Driven(
            self._received, self._failures, archive.size_bytes if archive else 0, self._controller_bytes
        )

    def _node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def _engine(self, name: str, transport: Transport) -> NodeEngine:
        as_root, info = self.engines[name]
        return NodeEngine(transport, as_root, info)

    def _on_all(self, nodes: Sequence[Node], work: Callable[[Node, Transport], T]) -> HostMap[T]:
        return fan_out(
            nodes, self.connect, work, fanout=self.fanout,
            on_start=lambda node: self.watch.begun(node.name), on_done=lambda node, _: self.watch.ended(node.name),
        )  # fmt: skip

    def _give_up(self, name: str, failure: Failure) -> None:
        self._failures[name] = failure
        self.watch.ended(name)

    def _prepare(self) -> None:
        def work(node: Node, transport: Transport) -> Relay:
            return relay.prepare(node, self._engine(node.name, transport), self.token)

        outcome = self._on_all(self.nodes, work)
        self._relays = outcome.values_by_node
        for name, failure in outcome.failures.items():
            self._give_up(name, failure)

    def _save(self) -> Archive:
        without = [name for name, found in self._relays.items() if not found.has_zstd]
        compression: Compression = "gzip" if without else "zstd"
        if without:
            self.talk(
                f"{without[0]} has no zstd ({len(without)} nodes lack it): gzip is used, which is slower"
            )
        self.progress(f"saving {self.name}")
        with local_engine.connect() as client:
            return archives.save(client, self.name, self.image, compression)

    def _refuse_full(self, archive: Archive) -> None:
        for name, found in list(self._relays.items()):
            try:
                relay.require_room(found, self.image, archive.size_bytes)
            except ImageError as error:
                self._give_up(name, Failure(FailureKind.ERROR, error.message, error.hint))

    def _connect_peers(self, archive: Archive) -> None:
        usable = {name: found for name, found in self._relays.items() if name not in self._failures}
        everybody = tuple(usable.values())

        def work(node: Node, transport: Transport) -> None:
            relay.connect_peers(transport, usable[node.name], everybody, self.token, archive)

        members = [node for node in self.nodes if node.name in usable]
        for name, failure in self._on_all(members, work).failures.items():
            self._give_up(name, failure)

    def _drive(self, archive: Archive) -> None:
        spread = DistributionState(
            [
                node.name
                for node in self.nodes
                if node.name in self._relays and node.name not in self._failures
            ]
        )
        loading = 0
        with ThreadPoolExecutor(max(1, min(self.fanout, 2 * len(self.nodes)))) as pool:
            try:
                while not spread.over or loading:
                    for transfer in spread.start():
                        pool.submit(
                            self._work,
                            self._transfer,
                            transfer,
                            archive,
                            spread.tries.get(transfer.target, 0),
                        )
                    ended = taken(self._ended)
                    if ended.crash is not None:
                        raise ended.crash
                    if ended.transfer is None:
                        loading -= 1
                        if ended.failure is not None:
                            self._received.pop(ended.node, None)
                            self._give_up(ended.node, ended.failure)
                        else:
                            self.watch.ended(ended.node)
                    elif self._took(spread, ended):
                        loading += 1
                        pool.submit(self._work, self._load, ended.transfer.target, archive)
            except BaseException:
                self._cut()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _took(self, spread: DistributionState, ended: _Ended) -> bool:
        """Report the end of a transfer to the spread; return whether the archive arrived."""
        transfer, failure = ended.transfer, ended.failure
        assert transfer is not None
        if transfer.source == CONTROLLER:
            self._controller_bytes += ended.sent_bytes
        if failure is None:
            spread.arrived(transfer)
            self._received[transfer.target] = (transfer.source or "controller", ended.sent_bytes)
            self.watch.doing(transfer.target, "loading the image")
            return True
        spread.broke(transfer, failure.message, blame=ended.blame)
        if transfer.target in spread.failed:
            self._give_up(transfer.target, failure)
        elif transfer.source != CONTROLLER:
            self.talk(f"{failure.message}; {transfer.target} gets it from another sender")
        return False

    def _work(self, work: Callable[..., _Ended], *arguments: object) -> None:
        try:
            self._ended.put(work(*arguments))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            self._ended.put(_Ended(None, "", crash=error))

    def _transport(self, name: str) -> Transport:
        transport = self.connect(self._node(name))
        with self._lock:
            self._open.add(transport)
        return transport

    def _close(self, transport: Transport) -> None:
        with self._lock:
            self._open.discard(transport)
        transport.close()

    def _cut(self) -> None:
        with self._lock:
            held = list(self._open)
        for transport in held:
            transport.close()

    def _transfer(self, transfer: Transfer, archive: Archive, tries: int) -> _Ended:
        """Copy once, from this machine or from a node; a failure names the node at fault if it is known."""
        target = self._relays[transfer.target]
        if tries and not self._interrupted:
            time.sleep(_RETRY_PAUSE_S)
        size = f"{archive.size_bytes / 2**20:.0f} MiB"
        name = transfer.target
        sent = relay.Counter(
            heard=lambda there: self.watch.doing(name, f"receiving from here: {there / 2**20:.0f} of {size}")
        )
        self.watch.doing(name, f"receiving {size} from {transfer.source or 'here'}")
        if transfer.source == CONTROLLER:
            transport = self._transport(transfer.target)
            try:
                relay.feed(transport, target, archive, sent, self.piece_bytes)
            except ClusterctlError as error:
                full = "no space left" in error.message.lower()
                return _Ended(
                    transfer, transfer.target, sent.bytes, _failure(error), transfer.target if full else None
                )
            finally:
                self._close(transport)
            return _Ended(transfer, transfer.target, sent.bytes)
        transport = self._transport(transfer.source)
        try:
            count = relay.pass_on(transport, self._relays[transfer.source], target, archive)
        except TransportError as error:
            return _Ended(transfer, transfer.target, 0, error.failure, transfer.source)
        except ClusterctlError as error:
            return _Ended(
                transfer, transfer.target, 0, *self._blamed(transfer, target, archive, error, tries)
            )
        finally:
            self._close(transport)
        return _Ended(transfer, transfer.target, count)

    def _blamed(
        self, transfer: Transfer, target: Relay, archive: Archive, error: ClusterctlError, tries: int
    ) -> tuple[Failure, str | None]:
        """Check the target from this machine: an unreachable or full target is at fault itself.

        The check also ends another sender there. That there was one is the fault of neither end, but only the source
        reports it, so this counts at the first try only.
        """
        if "no space left" in error.message.lower():
            hint = "free space on it, and run it again"
            return Failure(
                FailureKind.ERROR, f"{target.node}: the disk is full: {error.message}", hint
            ), target.node
        transport = self._transport(transfer.target)
        try:
            relay.have(transport, target, archive)
        except TransportError as gone:
            return gone.failure, target.node
        except ClusterctlError:
            pass
        finally:
            self._close(transport)
        return _failure(error), NEITHER_END if "another sender" in error.message and not tries else None

    def _load(self, name: str, archive: Archive) -> _Ended:
        transport = self._transport(name)
        try:
            relay.load(self._engine(name, transport), self._relays[name], archive, self.name, self.image)
        except ClusterctlError as error:
            return _Ended(None, name, failure=_failure(error))
        finally:
            self._close(transport)
        return _Ended(None, name)

    def _clean(self, note: Note) -> None:
        """Clean every node; keep an incomplete archive only where it will be resumed."""

        def work(node: Node, transport: Transport) -> None:
            keep = node.name in self._failures and node.name not in self._received and not self._interrupted
            relay.clean(transport, self.token, note.sha256, keep=keep)
            note.cleaned(node)

        for name, failure in fan_out(self.nodes, self.connect, work, fanout=self.fanout).failures.items():
            _LOG.warning(
                "%s: keys and directory of this distribution stay there until the next one removes them: %s",
                name,
                failure.message,
            )


def _failure(error: ClusterctlError) -> Failure:
    if isinstance(error, TransportError):
        return error.failure
    return Failure(FailureKind.ERROR, error.message, error.hint)
