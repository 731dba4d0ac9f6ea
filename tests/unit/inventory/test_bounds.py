"""What a few bytes of an inventory may multiply to, and what its files may be: refused before it costs anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterctl.errors import InventoryError
from clusterctl.inventory import load, nodeset, resolve
from clusterctl.text import user_files

FLEET = "version: 1\nnodes: [{name: 'n[1-10000]'}]\n"


def refusal(text: str, folder: Path | None = None) -> str:
    with pytest.raises(InventoryError) as caught:
        load.from_text(text, folder=folder)
    return caught.value.message


def groups(count: int, members: str) -> str:
    return "groups:\n" + "".join(f"  x{i}:\n    nodes: '{members}'\n" for i in range(count))


def test_members_are_bounded_over_all_groups_before_any_name_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    names = nodeset.NodeSet.names
    monkeypatch.setattr(nodeset.NodeSet, "names", lambda found: made.append(found.size) or names(found))
    message = refusal(FLEET + groups(1000, "n[1-10000]"))
    assert message.startswith(
        "inventory.yaml:213: groups.x104.nodes: the groups up to this one have 1050000 members"
    )
    assert "at most 1048576 over all groups" in message and len(message.splitlines()) == 1
    assert sum(made) == 10_000, "the nodes' names alone"


def test_ten_thousand_nodes_in_twenty_groups_share_what_they_have_in_common() -> None:
    inventory = load.from_text(FLEET + groups(20, "n[1-10000]"))
    assert inventory.nodes[9999].groups == tuple(f"x{i}" for i in range(20))
    assert inventory.nodes[0].groups is inventory.nodes[9999].groups
    assert inventory.nodes[0].container is inventory.nodes[9999].container


def test_repeats_within_a_group_count_once_and_groups_keep_the_order_of_the_file() -> None:
    text = "version: 1\nnodes: [{name: 'n[1-3]'}]\ngroups:\n  z: {nodes: 'n2,n1,n2'}\n  a: {nodes: 'n[1-2],n1'}\n"
    assert [node.groups for node in load.from_text(text).nodes] == [("z", "a"), ("z", "a"), ()]


def test_nodes_given_again_and_again_are_counted_before_they_are_made() -> None:
    text = "version: 1\nnodes:\n" + "  - name: n[1-60000]\n" * 1000
    message = refusal(text)
    assert message == "inventory.yaml:2: nodes: 60000000 nodes; at most 65536 are accepted"


def test_addresses_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(found: nodeset.NodeSet) -> None:
        raise AssertionError(f"{found.size} names made")

    names = nodeset.NodeSet.names
    monkeypatch.setattr(nodeset.NodeSet, "names", lambda f: names(f) if f.size < 9 else refused(f))
    assert "60000 addresses, but n1 has 1 nodes" in refusal(
        "version: 1\nnodes: [{name: n1, address: '10.0.0.[1-60000]'}]\n"
    )


def test_a_number_of_names_beyond_what_python_prints_is_refused() -> None:
    text = "[1-999999999]" * 5000
    assert "has more than 1000000000000000000 names" in refusal(FLEET + groups(1, text))


def test_large_defaults_of_many_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "MAX_SETTINGS", 1000)
    env = "defaults:\n  env:\n" + "".join(f"    V{i}: a\n" for i in range(90))
    nodes = "nodes:\n" + "".join(f"  - name: n{i}\n" for i in range(100))
    message = refusal(f"version: 1\n{env}{nodes}")
    assert (
        "nodes[10]: defaults, groups and nodes give the nodes up to this one more than 1000 settings"
        in message
    )
    # One entry costs once, however many nodes it is.
    assert len(load.from_text(f"version: 1\n{env}nodes: [{{name: 'n[1-100]'}}]\n").nodes) == 100


def test_a_cluster_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "topology").write_text("x\n")
    reads: list[str] = []
    real = user_files.read
    monkeypatch.setattr(user_files, "read", lambda path, most: reads.append(str(path)) or real(path, most))
    text = "version: 1\ndefaults: {requirements: {cluster_file: {source: topology}}}\nnodes:\n"
    inventory = load.from_text(text + "".join(f"  - name: n{i}\n" for i in range(50)), folder=tmp_path)
    assert {node.requirements.cluster_file.content for node in inventory.nodes} == {"x\n"}
    assert reads == [str(tmp_path / "topology")]


@pytest.mark.parametrize("key", ["identity_file", "known_hosts"])
def test_what_is_no_bounded_regular_file_is_refused_with_its_line(tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    text = "version: 1\nnodes: [{name: a}]\ndefaults:\n  user: x\n  "
    found = refusal(f"{text}{key}: pipe\n", tmp_path)
    assert (
        f"inventory.yaml:5: defaults.{key}: {tmp_path}/pipe cannot be read: it is a pipe (FIFO); expected"
        in found
    )
    assert "it is a character device; expected a regular file" in refusal(
        f"{text}{key}: /dev/zero\n", tmp_path
    )
    assert "is a directory; expected a file" in refusal(f"{text}{key}: folder\n", tmp_path)
    with (tmp_path / "large").open("wb") as large:
        large.truncate(user_files.KNOWN_HOSTS_BYTES + 1)
    assert "it holds 67108865 bytes; expected a regular file of at most" in refusal(
        f"{text}{key}: large\n", tmp_path
    )


def test_known_hosts_may_be_missing_or_the_null_device(tmp_path: Path) -> None:
    text = "version: 1\nnodes: [{name: a, known_hosts: not-yet}, {name: b, known_hosts: /dev/null}]\n"
    assert len(load.from_text(text, folder=tmp_path).nodes) == 2


def test_an_inventory_that_is_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "inventory.yaml")
    with pytest.raises(InventoryError) as caught:
        load.load(tmp_path / "inventory.yaml")
    assert "it is a pipe (FIFO); expected a regular file of at most 4 MiB" in caught.value.message
    assert caught.value.hint == "copy its content to a file, and give that file instead"
    with pytest.raises(InventoryError, match="it is a character device"):
        load.load(Path("/dev/zero"))
    with pytest.raises(InventoryError, match="empty"):
        load.load(Path(os.devnull))


def test_an_inventory_of_a_process_substitution_is_read_and_its_paths_start_here(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x")
    program = (
        "import sys; from pathlib import Path; from clusterctl.inventory import load\n"
        "print(load.load(Path(sys.argv[1])).nodes[0].identity_file)"
    )
    written = "printf 'version: 1\\nnodes: [{name: a, identity_file: key}]\\n'"
    ran = subprocess.run(
        ("bash", "-c", f'"$0" -c "$1" <({written})', sys.executable, program),
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{tmp_path}/key\n", "")
