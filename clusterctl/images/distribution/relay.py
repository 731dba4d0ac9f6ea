"""Run the commands of a distribution on a node through its Transport: prepare, receive, send, load, clean.

Nodes log in to each other with keys that they make for one distribution. Such a key may do nothing but add to
the one archive, and is taken out again at the end; its private half never leaves its node.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import ImageError
from clusterctl.facts.base import malformed
from clusterctl.facts.catalog import is_complete
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.images.distribution.archive import DECOMPRESS, Archive
from clusterctl.images.on_node import NodeEngine, NodeImage, brief, require
from clusterctl.inventory.model import Node
from clusterctl.text.foreign import whole
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Completed, Transport

READS = frozenset({"image_distribution", "network", "session", "storage"})
"""The subjects of the facts that a distribution reads."""
SPOOL = "/var/tmp"
"""The directory below which nodes keep archives."""
PIECE_BYTES = 16 << 20
_NO_BASE = 3
"""Exit status of ``prepare.sh`` when it cannot create the directory of all distributions."""
_TIMEOUT_S = 60.0
_SLOWEST_BYTES_PER_S = 1 << 20
"""A slower transfer is abandoned."""
_MARGIN = 1.05
_FULL = "free space: docker system prune removes what no container uses"
# Text of one node that reaches others: a word of ssh's command line, lines of authorized_keys and known_hosts.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*[$]?")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?")
_KEY = re.compile(r"[a-z0-9][a-z0-9@.-]* [A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class Relay:
    """A node that was prepared: where it keeps the archive, and how other nodes reach it."""

    node: str
    base: str
    work: str
    user: str
    address: str
    port: int
    key: str | None
    host_keys: tuple[str, ...]
    has_zstd: bool
    free_spool_bytes: int
    free_docker_bytes: int
    one_disk: bool


def _script(name: str, values: Mapping[str, str]) -> bytes:
    head = "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())
    return (head + Path(__file__).with_name(name).read_text(encoding="utf-8")).encode()


def prepare(node: Node, engine: NodeEngine, token: str) -> Relay:
    """Create the node's directory and key for this distribution; raise ImageError if that fails."""
    values = {"SPACE_AT": f"{SPOOL}\n{engine.info.root_dir}"}
    facts = gather(engine.transport, node, _TIMEOUT_S, subjects=READS, values=values, sudo=False)
    base = _base(facts)
    made = {"TOKEN": token, "BASE": base, "WORK": f"{base}/{token}"}
    done = engine.transport.run(("sh", "-s"), stdin=_script("prepare.sh", made), timeout_s=_TIMEOUT_S)
    if done.returncode != 0:
        raise ImageError(
            f"{node.name}: cannot make {made['BASE' if done.returncode == _NO_BASE else 'WORK']}",
            hint="the archive waits there until it is loaded: free space there",
        )
    mark = f" clusterctl-{token}"
    key = next((line for line in done.text.splitlines() if line.endswith(mark)), "").removesuffix(mark)
    with understanding(node.name, "what it has for an image"):
        return of_facts(node, facts, token, engine.info.root_dir, key, engine.transport.host_key)


def _base(facts: NodeFacts) -> str:
    return f"{SPOOL}/clusterctl-images-{facts.root.uid}"


def of_facts(
    node: Node, facts: NodeFacts, token: str, docker_root: str, key: str, host_key: str | None = None
) -> Relay:
    """Return what a distribution needs from a node's facts of ``READS``; ``key``: the public key, empty without one.

    ``host_key`` is the one that the controller verified at its login, as ``type base64``; None without a login.
    Raise ImageError for incomplete or malformed facts, and for words that other nodes may not get.
    """
    session, own, storage = facts.session, facts.image_distribution, facts.storage
    complete = is_complete(facts, ("session", "image_distribution")) and facts.root.uid >= 0
    if session is None or own is None or not complete:
        raise ImageError(f"{node.name} did not finish answering what it has for an image")
    if why := malformed(session.accepted):
        raise ImageError(f"{node.name} gave a malformed answer to what it has for an image: {why:.120}")

    def free(path: str) -> int:
        space = storage.at(path)
        return 1 << 62 if space is None else space.free_bytes

    # Where the node was reached and on which port: right behind forwarded ports and jump hosts, too.
    accepted = session.accepted.value
    near = "" if accepted is None or accepted.address.startswith("127.") else accepted.address
    interface = (node.interfaces.first if node.interfaces else None) or ""
    told = facts.network.ipv4(interface) or near
    base = _base(facts)
    return Relay(
        node=node.name,
        base=base,
        work=f"{base}/{token}",
        user=_fit_to_travel(node, "account", own.user, _USER),
        address=_fit_to_travel(node, "address", told, _ADDRESS) if told else node.address,
        port=22 if accepted is None else accepted.port,
        key=_fit_to_travel(node, "key", key, _KEY) if key else None,
        host_keys=tuple(
            _fit_to_travel(node, "host key", found, _KEY) for found in session.keys_to_pin(host_key)
        ),
        has_zstd=own.has_zstd,
        free_spool_bytes=free(SPOOL),
        free_docker_bytes=free(docker_root),
        one_disk=storage.device_at(SPOOL) == storage.device_at(docker_root),
    )


def _fit_to_travel(node: Node, what: str, word: str, allowed: re.Pattern[str]) -> str:
    """Return a word that other nodes get in a command or a file; raise ImageError if it is more than one word."""
    if not allowed.fullmatch(word):
        raise ImageError(
            f"{node.name}: the {what} {word[:60]!r} has characters that are not passed to other nodes"
        )
    return word


def require_room(relay: Relay, image: NodeImage, archive_bytes: int) -> None:
    """Raise ImageError if the archive, or the image in it, does not fit the node's disks."""
    for_image = int(image.size_bytes * _MARGIN) + (archive_bytes if relay.one_disk else 0)
    for where, free, needed, hint in (
        (
            relay.base,
            relay.free_spool_bytes,
            archive_bytes,
            f"free space on the disk that `df {relay.base}` shows",
        ),
        ("its docker engine", relay.free_docker_bytes, for_image, _FULL),
    ):
        if free < needed:
            raise ImageError(
                f"{relay.node}: the disk is too full: {where} has {_size(free)} free and needs {_size(needed)}",
                hint=hint,
            )


def _size(size_bytes: int) -> str:
    mib = size_bytes / 2**20
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.1f} MiB"


def known_hosts(relays: Iterable[Relay]) -> bytes:
    """Return known_hosts lines for the nodes, with the host keys that the controller verified."""
    lines = []
    for relay in relays:
        name = relay.address if relay.port == 22 else f"[{relay.address}]:{relay.port}"
        lines += [f"{name} {key}\n" for key in relay.host_keys]
    return "".join(lines).encode()


def authorized_keys(relay: Relay, others: Iterable[Relay], token: str, archive: Archive) -> bytes:
    """Return authorized_keys lines with which other nodes can only append to the archive on this node."""
    command = shlex.join(("exec", "sh", f"{relay.work}/receive.sh", *_fixed(relay, archive)))
    lines = [
        f'restrict,command="{command}" {other.key} clusterctl-{token}\n'
        for other in others
        if other.key is not None and other.node != relay.node
    ]
    return "".join(lines).encode()


def _fixed(relay: Relay, archive: Archive) -> tuple[str, str, str]:
    return relay.base, archive.sha256, str(archive.size_bytes)


def connect_peers(
    transport: Transport, relay: Relay, others: tuple[Relay, ...], token: str, archive: Archive
) -> None:
    """Install the receiver of the archive, and authorize the other nodes' keys for it."""
    receiver = Path(__file__).with_name("receive.sh").read_bytes()
    transport.put(receiver, f"{relay.work}/receive.sh", mode=0o600)
    transport.put(known_hosts(others), f"{relay.work}/known_hosts", mode=0o600)
    keys = authorized_keys(relay, others, token, archive)
    if keys:
        script = _script("authorize.sh", {"WORK": relay.work}).decode()
        done = transport.run(("sh", "-c", script), stdin=keys, timeout_s=_TIMEOUT_S)
        require(done, f"{relay.node}: its authorized_keys cannot be written")


def have(transport: Transport, relay: Relay, archive: Archive) -> int:
    """Return how many bytes of the archive the node has."""
    text = require(
        _receive(transport, relay, archive, "have"), f"{relay.node}: the archive cannot be looked at"
    )
    with understanding(relay.node, "how much of the archive it has"):
        return whole(text)


def _receive(
    transport: Transport, relay: Relay, archive: Archive, *request: str, stdin: bytes = b""
) -> Completed:
    words = ("sh", f"{relay.work}/receive.sh", *_fixed(relay, archive), *request)
    return transport.run(words, stdin=stdin, timeout_s=_patience_s(max(len(stdin), archive.size_bytes)))


def _patience_s(size_bytes: int) -> float:
    return _TIMEOUT_S + size_bytes / _SLOWEST_BYTES_PER_S


@dataclass(slots=True)
class Counter:
    """How many bytes were sent, also when sending ended early."""

    bytes: int = 0
    heard: Callable[[int], None] | None = None
    """Called with the bytes that the node has, after each piece."""


def feed(
    transport: Transport, relay: Relay, archive: Archive, sent: Counter, piece_bytes: int = PIECE_BYTES
) -> None:
    """Send the archive from this machine in pieces; continue after the bytes that the node has."""
    at = have(transport, relay, archive)
    while at < archive.size_bytes:
        piece = archive.piece(at, piece_bytes)
        done = _receive(transport, relay, archive, "add", str(at), str(len(piece)), stdin=piece)
        require(done, f"{relay.node}: the archive cannot be written")
        at += len(piece)
        sent.bytes += len(piece)
        if sent.heard is not None:
            sent.heard(at + len(piece))
    require(_receive(transport, relay, archive, "finish"), f"{relay.node}: the archive did not arrive whole")


def pass_on(transport: Transport, source: Relay, target: Relay, archive: Archive) -> int:
    """Send the archive from one node to another; return the bytes. Raise ImageError with the reason of a failure."""
    values = {
        "WORK": source.work,
        "ADDRESS": f"{target.user}@{target.address}",
        "PORT": str(target.port),
        "ARCHIVE": f"{source.base}/{archive.sha256}.archive",
        "SIZE": str(archive.size_bytes),
    }
    done = transport.run(
        ("sh", "-s"), stdin=_script("send.sh", values), timeout_s=_patience_s(archive.size_bytes)
    )
    text = require(done, f"{source.node} cannot send to {target.node}")
    with understanding(source.node, "how much it sent"):
        return whole(text.split()[-1])


def load(engine: NodeEngine, relay: Relay, archive: Archive, name: str, wanted: NodeImage) -> None:
    """Load the archive into the node's engine; raise ImageError if the engine lacks the image afterwards."""
    path = f"{relay.base}/{archive.sha256}.archive"
    line = f"{DECOMPRESS[archive.compression]} < {shlex.quote(path)} | docker load -q"
    done = engine.transport.run(
        ("sh", "-c", line), timeout_s=_patience_s(wanted.size_bytes), as_root=engine.as_root
    )
    said = brief(done.error_text)
    if "no space left" in said.lower():
        raise ImageError(f"{relay.node}: the disk is full: {said}", hint=_FULL)
    require(done, f"{relay.node}: {name} cannot be loaded")
    found = engine.image(name)
    if found is None or not found.same_as(wanted):
        raise ImageError(
            f"{relay.node}: what docker loaded is not {name}", hint=f"docker image inspect {name} there"
        )


def clean(transport: Transport, token: str, sha256: str | None, *, keep: bool) -> None:
    """Remove keys, directory and archive (``sha256``); ``keep``: an incomplete archive stays for the next attempt."""
    values = {"TOKEN": token, "SUM": sha256 or "", "KEEP": "yes" if keep else "no"}
    done = transport.run(("sh", "-s"), stdin=_script("clean.sh", values), timeout_s=_TIMEOUT_S)
    require(done, f"{transport.node}: what a distribution left cannot be taken away")
