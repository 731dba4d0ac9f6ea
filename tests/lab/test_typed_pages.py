"""README and guides from their first command to their last, typed at a terminal as their readers do, and compared.

The nodes of README and of "first cluster" are bare; what they lack comes from a repository of packages. README's
installation takes the wheel of collective_core that this Python has, instead of compiling it a second time.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import bare_nodes
import debian_base
import guest_state
import pytest
from recorded_session import shown_in
from typed_page import Reader, installer, lab_ends, path_with

from clusterctl.lab import containers

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FIRST_CLUSTER = ROOT / "docs/guides/first-cluster.md"
CONTAINERS = ROOT / "docs/guides/containers.md"
BASE = "debian:12"
"""The base of the image in the guide."""
INVENTORY = re.compile(r"^```yaml\n(version: .*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def nodes(tier_unavailable: Callable[[str], None]) -> Iterator[bare_nodes.BareNodes]:
    if reason := bare_nodes.missing():
        tier_unavailable(reason)
    with bare_nodes.bare_nodes(4) as started:
        yield started


@pytest.fixture
def env(nodes: bare_nodes.BareNodes) -> Iterator[dict[str, str]]:
    """The environment of someone who has a login key for the nodes, and has never been there."""
    # A short path, because the screen folds a long one.
    with tempfile.TemporaryDirectory(prefix="ssh-") as folder:
        known_hosts = Path(folder) / "known_hosts"
        known_hosts.touch()
        yield {
            "CLUSTERCTL_SSH_CONFIG": str(nodes.farm.directory / "ssh_config"),
            "CLUSTERCTL_KNOWN_HOSTS": str(known_hosts),
            "PATH": path_with(),
        }


@pytest.fixture
def unchanged(nodes: bare_nodes.BareNodes) -> Iterator[None]:
    """See that the nodes have the same files and packages after the test as before it."""
    before = [_state(nodes, node.address) for node in nodes.farm.nodes]
    yield
    for node, was in zip(nodes.farm.nodes, before, strict=True):
        assert guest_state.differences(was, _state(nodes, node.address), *was) == [], node.name


def _state(nodes: bare_nodes.BareNodes, address: str) -> dict[str, list[str]]:
    questions = {"files": guest_state.TREE, "packages": guest_state.PACKAGES}
    found = {name: nodes.output(address, script).splitlines() for name, script in questions.items()}
    # Where collective_core keeps what it measured, for later jobs (docs/guides/bench.md).
    return {
        name: [line for line in lines if not re.search(r"root/\.cache(/collective_core(/\w+\.txt)?)?$", line)]
        for name, lines in found.items()
    }


@pytest.mark.usefixtures("unchanged")
def test_readme_goes_from_bare_nodes_to_a_benchmark(
    nodes: bare_nodes.BareNodes, env: dict[str, str], tmp_path: Path
) -> None:
    install, *steps = shown_in(README.read_text(encoding="utf-8"))
    env = {**env, **installer(tmp_path)}
    Reader(ROOT, env).finds(install)
    (tmp_path / "cluster").mkdir()
    reader = Reader(tmp_path / "cluster", env, nodes.controller)
    for step in steps:
        reader.finds(step)


@pytest.mark.usefixtures("unchanged")
def test_the_guide_of_a_first_cluster_is_what_happens(
    nodes: bare_nodes.BareNodes, env: dict[str, str], tmp_path: Path
) -> None:
    for node in nodes.farm.nodes:
        key = nodes.output(node.address, "cat /etc/ssh/ssh_host_ed25519_key.pub")
        with Path(env["CLUSTERCTL_KNOWN_HOSTS"]).open("a", encoding="utf-8") as known:
            known.write(f"{node.address} {key}")
    (tmp_path / "cluster").mkdir()
    (inventory,) = INVENTORY.findall(FIRST_CLUSTER.read_text(encoding="utf-8"))
    (tmp_path / "cluster" / "inventory.yaml").write_text(inventory, encoding="utf-8")
    Reader(tmp_path / "cluster", env, nodes.controller).follows(FIRST_CLUSTER)


def test_the_guide_of_containers_is_what_happens(docker_engine: None, tmp_path: Path) -> None:
    with containers.engine() as client:
        had = {tag for image in client.images.list() for tag in image.tags}
        if BASE not in had:
            client.images.get(debian_base.ensure(client)).tag(BASE)
        try:
            with lab_ends(tmp_path):
                Reader(tmp_path, {"PATH": path_with()}).follows(CONTAINERS)
        finally:
            for tag in {BASE, "train:1"} - had:
                client.images.remove(tag)
