"""Gather a node's facts: run the probe over its transport and parse the answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.errors import FactsError
from clusterctl.facts import probe
from clusterctl.facts.catalog import facts_from, settings_read
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.subjects.clock import ClockExchange
from clusterctl.inventory.model import Become, Node
from clusterctl.text.secret.scrub import scrubbed
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Failure, FailureKind, Transport, TransportError

DEFAULT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The unparsed answer of a node to one run of the probe.

    ``nonce`` marks the sections' ends; times are the controller's, in seconds since the epoch.
    """

    nonce: str
    as_root: bool
    returncode: int
    stdout: bytes
    stderr: bytes
    started_s: float
    ended_s: float


def _ask(
    transport: Transport,
    timeout_s: float,
    subjects: frozenset[str] | None,
    *,
    allow_sudo: bool,
    as_root: bool = False,
    values: Mapping[str, str] | None = None,
) -> RawAnswer:
    nonce = secrets.token_hex(16)
    script = probe.build_script(
        nonce, allow_sudo=allow_sudo, only_root=as_root, subjects=subjects, values=values
    )
    started = time.time()
    completed = transport.run(("sh",), stdin=script.encode(), timeout_s=timeout_s, as_root=as_root)
    return RawAnswer(
        nonce, as_root, completed.returncode, completed.stdout, completed.stderr, started, time.time()
    )


def _split(raw: RawAnswer, subjects: frozenset[str] | None) -> probe.Answer:
    try:
        return probe.split(raw.stdout.decode(errors="replace"), raw.nonce, subjects)
    except FactsError as error:
        words = " ".join(scrubbed(raw.stderr.decode(errors="replace")[-1000:]).split())[-300:]
        message = f"{error.message} (exit status {raw.returncode}{f': {words}' if words else ''})"
        raise TransportError(Failure(FailureKind.PROTOCOL, message, error.hint)) from None


def understand(
    name: str,
    answers: Sequence[RawAnswer],
    *,
    root_refusal: str | None = None,
    subjects: frozenset[str] | None = None,
) -> NodeFacts:
    """Parse a node's answers into facts: the first as the login user, a second one as root. Pure function.

    ``root_refusal`` is the reason why sudo refused a second run as root; ``subjects`` are the probed subjects.
    Raise TransportError (``protocol``) for an answer without facts.
    """
    first = answers[0]
    answer = _split(first, subjects)
    sections, root = answer.sections, answer.root
    for raw in answers[1:]:
        again = _split(raw, subjects)
        sections.update({name: section for name, section in again.sections.items() if name != "root"})
        root = RootAccess(root.uid, "sudo", "with a password")
    if root_refusal is not None and not root.available:
        # Missing root access is a finding (readings that need root are "denied"), not a failure of the node.
        root = RootAccess(root.uid, root.way, root_refusal)
    with understanding(name, "its facts"):
        return facts_from(
            name,
            sections,
            root,
            gathered_at=round(first.started_s, 3),
            duration_s=round(first.ended_s - first.started_s, 3),
            exchange=ClockExchange(first.started_s, first.ended_s, answer.uptime_end_s),
            subjects=subjects,
        )


@dataclass(frozen=True, slots=True)
class Heard:
    """A node's unparsed answers: as the login user, then as root; or the reason why root was refused."""

    name: str
    answers: tuple[RawAnswer, ...]
    refusal: str | None = None
    subjects: frozenset[str] | None = None

    def understood(self) -> NodeFacts:
        """Return the facts of the answers; see ``understand``."""
        return understand(self.name, self.answers, root_refusal=self.refusal, subjects=self.subjects)


OnAnswers = Callable[[Node, tuple[RawAnswer, ...], str | None], None]
_NO_SUDO = "not root, and this command does not use sudo"


def hear(
    transport: Transport,
    node: Node,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    escalate: bool = False,
    on_answers: OnAnswers | None = None,
    subjects: frozenset[str] | None = None,
    values: Mapping[str, str] | None = None,
    sudo: bool = True,
) -> Heard:
    """Run the probe and return its answers, parsed only as far as needed to see whether root is missing.

    The arguments are those of ``gather``. Raise TransportError if the node does not answer.
    """
    allowed = sudo and node.become is not Become.NONE
    values = {**settings_read(node, subjects), **(values or {})}
    answers = [_ask(transport, timeout_s, subjects, allow_sudo=allowed, values=values)]
    refusal = None if sudo else _NO_SUDO
    try:
        if escalate and allowed and not _split(answers[0], subjects).root.available:
            try:
                answers.append(
                    _ask(transport, timeout_s, subjects, allow_sudo=False, as_root=True, values=values)
                )
            except TransportError as error:
                if error.failure.kind is not FailureKind.SUDO:
                    raise
                refusal = error.message
    finally:
        if on_answers is not None:
            on_answers(node, tuple(answers), refusal)
    return Heard(node.name, tuple(answers), refusal, subjects)


def gather(
    transport: Transport,
    node: Node,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    escalate: bool = False,
    on_answers: OnAnswers | None = None,
    subjects: frozenset[str] | None = None,
    values: Mapping[str, str] | None = None,
    sudo: bool = True,
) -> NodeFacts:
    """Return the node's facts from one run of the probe as the login user; the probe itself tries ``sudo -n``.

    With ``escalate``, a node whose sudo requires a password runs the sections that need root a second time, as root
    (through the transport). ``on_answers`` receives the unparsed answers and the reason if root was refused.
    ``subjects`` are the subjects to probe (None: all except those on request), completed by the subjects that their
    parsers read; ``values`` are those of their fragments' variables that the inventory does not set. Without
    ``sudo`` nothing runs as another user.
    Raise TransportError if the node does not answer, or answers without facts.
    """
    heard = hear(
        transport, node, timeout_s, escalate=escalate, on_answers=on_answers, subjects=subjects, values=values,
        sudo=sudo,
    )  # fmt: skip
    return heard.understood()
