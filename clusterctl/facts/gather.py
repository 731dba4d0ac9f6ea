"""Gather a node's facts: one command over its transport, then parsing."""

from __future__ import annotations

import secrets
import time

from clusterctl.errors import FactsError
from clusterctl.facts import (
    clock,
    configuration,
    cpu,
    docker,
    gpu,
    limits,
    memory,
    modules,
    network,
    pci,
    probe,
    rdma,
    services,
    software,
    storage,
    system,
)
from clusterctl.facts.base import Sections
from clusterctl.facts.clock import Exchange
from clusterctl.facts.model import NodeFacts, SectionNote
from clusterctl.facts.model_host import RootAccess
from clusterctl.inventory.model import Become, Node
from clusterctl.transport.base import Failure, FailureKind, Transport, TransportError

DEFAULT_TIMEOUT_S = 120.0


def facts_from(
    name: str,
    sections: Sections,
    root: RootAccess,
    *,
    gathered_at: float,
    duration_s: float,
    exchange: Exchange | None = None,
) -> NodeFacts:
    """Parse all sections of one node; pure. Times are the controller's, in seconds."""
    processors = cpu.parse(sections)
    topology = processors.topology.value
    return NodeFacts(
        name=name,
        gathered_at=gathered_at,
        duration_s=duration_s,
        root=root,
        system=system.parse(sections, None if topology is None else topology.hypervisor),
        cpu=processors,
        memory=memory.parse(sections),
        limits=limits.parse(sections),
        modules=modules.parse_modules(sections),
        gpudirect=modules.parse_gpudirect(sections),
        pci=pci.parse(sections),
        gpu=gpu.parse(sections),
        rdma=rdma.parse(sections),
        network=network.parse(sections),
        docker=docker.parse(sections),
        storage=storage.parse(sections),
        clock=clock.parse(sections, exchange),
        services=services.parse(sections),
        software=software.parse(sections),
        sysctls=configuration.parse_sysctls(sections),
        managed_files=configuration.parse_managed(sections),
        sections=tuple(
            SectionNote(section.name, section.status, section.exit_status, section.error, section.cut)
            for section in (sections[fragment.name] for fragment in probe.FRAGMENTS)
        ),
    )


def _ask(transport: Transport, timeout_s: float, *, allow_sudo: bool, as_root: bool = False) -> probe.Answer:
    nonce = secrets.token_hex(16)
    script = probe.build_script(nonce, allow_sudo=allow_sudo, only_root=as_root)
    completed = transport.run(("sh",), stdin=script.encode(), timeout_s=timeout_s, as_root=as_root)
    try:
        return probe.split(completed.text, nonce)
    except FactsError as error:
        words = " ".join(completed.error_text.split())[-300:]
        message = f"{error.message} (exit status {completed.returncode}{f': {words}' if words else ''})"
        raise TransportError(Failure(FailureKind.PROTOCOL, message, error.hint)) from None


def gather(
    transport: Transport,
    node: Node,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    escalate: bool = False,
) -> NodeFacts:
    """Return the node's facts from one exec as the login user; the probe itself tries ``sudo -n``.

    With ``escalate`` a node whose sudo wants a password gets a second exec as root (through the transport)
    for the sections that need it. Raises TransportError when the node does not answer, or answers no facts.
    """
    started = time.time()
    answer = _ask(transport, timeout_s, allow_sudo=node.become is not Become.NONE)
    ended = time.time()
    sections, root = answer.sections, answer.root
    if escalate and not root.available and node.become is not Become.NONE:
        try:
            again = _ask(transport, timeout_s, allow_sudo=False, as_root=True)
        except TransportError as error:
            if error.failure.kind is not FailureKind.SUDO:
                raise
            # No way to root is a finding (what needs root reads "denied"), not a node that failed.
            root = RootAccess(root.uid, root.way, error.message)
        else:
            sections.update({name: section for name, section in again.sections.items() if name != "root"})
            root = RootAccess(root.uid, "sudo", "with a password")
    return facts_from(
        node.name,
        sections,
        root,
        gathered_at=round(started, 3),
        duration_s=round(ended - started, 3),
        exchange=Exchange(started, ended, answer.uptime_end_s),
    )
