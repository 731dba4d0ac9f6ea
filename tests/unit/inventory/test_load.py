"""Loading: which file is meant, and how settings merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.errors import InventoryError
from clusterctl.inventory import load
from clusterctl.inventory.model import Become, Inventory, Launcher

VALID = """\
version: 1
launcher: mpich
defaults:
  user: ubuntu
  gpus: 8
  port: 22
  env: {NCCL_DEBUG: INFO, SHARED: "d"}
  requirements:
    memlock: 65536
    acs: {in_vm: disable, gpu_devices: ["class:0302"]}
groups:
  rack1:
    nodes: gpu[01-02]
    env: {RACK: 1, SHARED: "g"}
    requirements: {acs: {persist: false}, skip: [docker]}
  big:
    nodes: gpu[02-03]
    gpus: 16
nodes:
  - name: gpu[01-04]
    address: 10.0.0.[1-4]
    container: {image: "img:1", shm_size: 8g}
    requirements: {acs: {gpu_devices: ["8086:*"]}}
  - name: spare
    address: 10.0.0.40
    port: 2222
    gpus: 4
    user: null
    become: none
    env: {SHARED: "n"}
"""


@pytest.fixture
def inventory() -> Inventory:
    return load.from_text(VALID)


def test_ranges_pair_names_with_addresses(inventory: Inventory) -> None:
    assert [(node.name, node.address) for node in inventory.nodes] == [
        ("gpu01", "10.0.0.1"),
        ("gpu02", "10.0.0.2"),
        ("gpu03", "10.0.0.3"),
        ("gpu04", "10.0.0.4"),
        ("spare", "10.0.0.40"),
    ]
    assert inventory.launcher is Launcher.MPICH
    assert inventory.source == "inventory.yaml"


def test_node_beats_groups_beat_defaults(inventory: Inventory) -> None:
    assert [node.gpus for node in inventory.nodes] == [8, 16, 16, 8, 4]
    assert inventory.node("spare").port == 2222
    assert inventory.node("gpu01").port == 22
    assert inventory.node("spare").become is Become.NONE
    assert inventory.node("gpu01").become is Become.AUTO
    assert inventory.node("gpu02").groups == ("rack1", "big")


def test_null_goes_back_to_the_nodes_own_default(inventory: Inventory) -> None:
    assert inventory.node("gpu01").user == "ubuntu"
    assert inventory.node("spare").user is None


def test_mappings_merge_key_by_key_by_what_was_set(inventory: Inventory) -> None:
    gpu01 = inventory.node("gpu01")
    assert gpu01.env == {"NCCL_DEBUG": "INFO", "SHARED": "g", "RACK": "1"}
    assert inventory.node("spare").env["SHARED"] == "n"
    # acs is set at three layers: each key comes from the layer nearest to the node that sets it.
    assert gpu01.requirements.acs.in_vm == "disable"
    assert gpu01.requirements.acs.persist is False
    assert gpu01.requirements.acs.gpu_devices == ("8086:*",)
    assert gpu01.requirements.memlock == 65536
    assert gpu01.requirements.skip == ("docker",)
    assert inventory.node("gpu03").requirements.acs.persist is True
    assert gpu01.container.shm_size == "8g"
    assert gpu01.container.memlock == "-1"
    assert inventory.node("spare").container.image is None


def test_later_groups_beat_earlier_ones() -> None:
    text = """\
version: 1
groups:
  zeta: {nodes: a, gpus: 1}
  alpha: {nodes: a, gpus: 2}
nodes: [{name: a}]
"""
    assert load.from_text(text).node("a").gpus == 2


def test_numbers_are_texts_where_a_text_is_mostly_a_number() -> None:
    text = "version: 1\nnodes: [{name: a, env: {A: 3, B: 1.50}, container: {memlock: -1, stack: 67108864}}]\n"
    node = load.from_text(text).node("a")
    assert node.env == {"A": "3", "B": "1.50"}
    assert (node.container.memlock, node.container.stack) == ("-1", "67108864")


def test_a_cluster_file_has_lines() -> None:
    text = "version: 1\ndefaults:\n  requirements:\n    cluster_file:\n      content: |\n        a\tb\n        c\n"
    (node,) = load.from_text(text + "nodes: [{name: a}]\n").nodes
    assert node.requirements.cluster_file.content == "a\tb\nc\n"


def test_an_alias_in_moderation_is_fine() -> None:
    text = "version: 1\nnodes: [{name: a, env: &e {A: x}}, {name: b, env: *e}]\n"
    assert load.from_text(text).node("b").env == {"A": "x"}


def test_one_address_behind_two_jump_hosts_is_two_machines() -> None:
    text = """\
version: 1
nodes:
  - {name: a, address: 10.0.0.5, proxy_jump: siteA}
  - {name: b, address: 10.0.0.5, proxy_jump: me@siteB:2222}
  - {name: c, address: 10.0.0.5, port: 23}
  - {name: d, address: "fe80::1%eth0"}
"""
    assert len(load.from_text(text).nodes) == 4


def test_identity_files_start_at_home_or_the_inventorys_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("k")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "key").write_text("k")
    path = tmp_path / "site" / "inv.yaml"
    path.write_text(
        "version: 1\ndefaults: {identity_file: ~/key}\nnodes: [{name: a}, {name: b, identity_file: key}]\n"
    )
    inventory = load.load(path)
    assert inventory.node("a").identity_file == str(tmp_path / "home" / "key")
    assert inventory.node("b").identity_file == str(tmp_path / "site" / "key")


def test_which_inventory_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(name: str) -> Path:
        path = tmp_path / name
        path.write_text(f"version: 1\nnodes: [{{name: from-{path.stem}}}]\n")
        return path

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    here = load.load()
    assert [(n.name, n.connection) for n in here.nodes] == [("localhost", "local")]
    assert here.source is None
    write("inventory.yaml")
    assert load.load().nodes[0].name == "from-inventory"
    monkeypatch.setenv("CLUSTERCTL_INVENTORY", str(write("variable.yaml")))
    assert load.load().nodes[0].name == "from-variable"
    assert load.load(write("argument.yaml")).nodes[0].name == "from-argument"
    with pytest.raises(InventoryError, match="cannot be read: No such file") as caught:
        load.load(tmp_path / "absent.yaml")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("19-ini.yaml", "# hosts\n[gpus]\ngpu01 ansible_host=10.0.0.1\n", "an Ansible inventory"),
        ("hosts.yml", "all:\n  children:\n    gpus:\n      hosts:\n        gpu01:\n", "an Ansible inventory"),
        ("hosts", "gpu01 slots=8\n", "a hostfile"),
        ("config", "Host gpu01\n  User root\n", "an ssh_config"),
        ("slurm.conf", "NodeName=gpu[01-02] CPUs=8\n", "Slurm's nodes"),
    ],
)
def test_an_inventory_of_another_tool_is_recognised(tmp_path: Path, name: str, text: str, title: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        load.load(path)
    assert caught.value.message == f"{path}: {title}; expected an inventory of clusterctl's"
    assert caught.value.hint == f"convert it: clusterctl inventory import {path} -o inventory.yaml"


@pytest.mark.parametrize("text", ["version: 1\nnodes: [gpu01\n", "a\n", "gpu01: 8\n", ""])
def test_a_broken_inventory_is_not_taken_for_one_of_another_tool(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        load.load(path)
    assert f"{path}:" in caught.value.message and "import" not in str(caught.value.hint)


def test_many_nodes_load_in_moderate_time() -> None:
    """4096 nodes by ranges take one resolution per entry, not per node."""
    text = "version: 1\ngroups: {g: {nodes: 'n[0-4095]', gpus: 8}}\nnodes: [{name: 'n[0-4095]'}]\n"
    inventory = load.from_text(text)
    assert len(inventory.nodes) == 4096
    assert inventory.nodes[0].requirements is inventory.nodes[4095].requirements


def test_a_mistyped_file_name_gets_a_suggestion(tmp_path):
    (tmp_path / "inventory.yaml").write_text("version: 1\n")
    with pytest.raises(InventoryError) as caught:
        load.load(tmp_path / "inventory1.yaml")
    assert caught.value.hint.startswith(f"did you mean {tmp_path}/inventory.yaml? give an existing")
    with pytest.raises(InventoryError) as caught:
        load.load(tmp_path / "none" / "inventory1.yaml")
    assert caught.value.hint.startswith("give an existing")


@pytest.mark.parametrize(
    "nodes", ["nodes: gpu[1-3]", "nodes: [gpu1, {name: 'gpu[2-3]'}]", "nodes: 'gpu[1-2],gpu3'"]
)
def test_entries_without_settings_may_be_texts(nodes: str) -> None:
    short = load.from_text(f"version: 1\n{nodes}\ngroups:\n  rack1: gpu[1-2]\n")
    written = "version: 1\nnodes: [{name: 'gpu[1-3]'}]\ngroups: {rack1: {nodes: 'gpu[1-2]'}}\n"
    assert short.nodes == load.from_text(written).nodes
    assert [node.groups for node in short.nodes] == [("rack1",), ("rack1",), ()]
