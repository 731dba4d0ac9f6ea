"""Meshes whose files are too long to be read whole: judged by their sums, and never shortened by accident."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from clusterctl.facts import gather
from clusterctl.facts.base import Reading, Section, Sections
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.services import Mount
from clusterctl.facts.model.sharing import OwnText
from clusterctl.facts.subjects import ssh_mesh
from clusterctl.inventory.model import Node
from clusterctl.requirements.base import Status
from clusterctl.requirements.fleet.ssh_mesh import requirement
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.steps import WriteBlock

COUNT = 600
SECTION = """\
login root 0 /root
tool ssh
tool ssh-keygen
key /etc/clusterctl/ssh/mesh.root.pub ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{number:043d} clusterctl-mesh:{name}
key /etc/ssh/ssh_host_ed25519_key.pub ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{number:043d} root@{name}
sshd port 22
file /root/.ssh/authorized_keys
client /etc/ssh/ssh_config:Include /etc/ssh/ssh_config.d/*.conf
"""


def _facts(number: int, name: str) -> NodeFacts:
    section = Section("ssh_mesh", SECTION.format(number=number, name=name))
    facts = gather.facts_from(name, Sections(), RootAccess(0, "root"), gathered_at=0.0, duration_s=0.1)
    mounts = Reading((Mount("/dev/vda1", "/", "ext4", ("rw",)),))
    return replace(
        facts,
        ssh_mesh=ssh_mesh.parse(Sections({"ssh_mesh": section})),
        storage=replace(facts.storage, mounts=mounts),
    )


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """600 nodes with keys, and nothing written yet."""
    wanted = {"ssh_mesh": {"require": True}}
    nodes = tuple(
        Node.model_validate(
            {"name": f"gpu{n:04d}", "address": f"10.0.{n // 250}.{n % 250 + 1}", "requirements": wanted}
        )
        for n in range(COUNT)
    )
    return Fleet(nodes, {node.name: _facts(number, node.name) for number, node in enumerate(nodes)})


def _written(fleet: Fleet, name: str) -> NodeFacts:
    """The node after its steps, as the probe reads it: long texts by their sums."""
    facts, node = fleet.facts[name], next(node for node in fleet.nodes if node.name == name)
    own = []
    for step in requirement.decide(facts, node, fleet).steps:
        text = step.content
        if isinstance(step, WriteBlock):
            text = f"# BEGIN clusterctl {step.name}\n{text}# END clusterctl {step.name}\n"
        long = len(text) > ssh_mesh.LONGEST_TEXT
        digest = hashlib.sha256(text.encode()).hexdigest()
        own.append(OwnText(step.path, None if long else text, digest if long else None))
    assert [text.text for text in own] == [None, None, None]
    return replace(facts, ssh_mesh=replace(facts.ssh_mesh, own=tuple(own)))


def test_a_long_mesh_is_met_by_its_sums(fleet: Fleet) -> None:
    facts = _written(fleet, "gpu0000")
    verdict = requirement.decide(facts, fleet.nodes[0], fleet)
    assert verdict.status is Status.MET, verdict.reason
    other = replace(facts.ssh_mesh.own[1], sha256="0" * 64)
    changed = replace(facts, ssh_mesh=replace(facts.ssh_mesh, own=(facts.ssh_mesh.own[0], other)))
    assert requirement.decide(changed, fleet.nodes[0], fleet).status is Status.UNMET


def test_a_node_out_of_sight_is_never_dropped_from_a_text_that_was_not_read(fleet: Fleet) -> None:
    facts = _written(fleet, "gpu0000")
    seen = {name: of for name, of in fleet.facts.items() if name != "gpu0007"}
    partly = Fleet(fleet.nodes, seen)
    # Whatever would be written now would lack gpu0007.
    verdict = requirement.decide(facts, fleet.nodes[0], partly)
    assert verdict.status is Status.UNMET
    assert "gpu0007 not checked in this run, and the files are too long" in verdict.reason
    assert verdict.steps == ()


def test_the_last_recorded_facts_stand_in_for_a_node_out_of_sight(fleet: Fleet) -> None:
    facts = _written(fleet, "gpu0000")
    seen = {name: of for name, of in fleet.facts.items() if name != "gpu0007"}
    partly = Fleet(fleet.nodes, seen, {"gpu0007": fleet.facts["gpu0007"]})
    verdict = requirement.decide(facts, fleet.nodes[0], partly)
    assert verdict.status is Status.MET, verdict.reason
    assert "gpu0007 not checked in this run" in verdict.reason
