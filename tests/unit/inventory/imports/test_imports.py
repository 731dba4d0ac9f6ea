"""What is imported is what the other tool itself reads: ansible-inventory's recorded answer, ``ssh -G``, nodeset.

``ansible_*.json`` is what ``ansible-inventory -i FILE --list`` of ansible-core 2.19 prints for the directories
beside it (the INI one without its encrypted file, which Ansible does not open without the password).
"""

from __future__ import annotations

import getpass
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clusterctl.cli.inventory.importing import _source, converted
from clusterctl.errors import InventoryError
from clusterctl.inventory import load, nodeset
from clusterctl.inventory.imports import ansible, kinds
from clusterctl.inventory.imports.found import ImportedInventory, ImportNote, Source
from clusterctl.inventory.model import Become, Inventory, Node
from clusterctl.transport.ssh.target import resolve

HERE = Path(__file__).parent
ANSIBLE = {"ansible_ini": "hosts.ini", "ansible_yaml": "site.yml"}


def imported(
    name: str, kind: kinds.Kind | None = None, folder: Path = HERE
) -> tuple[Inventory, ImportedInventory, str]:
    source = _source(str(HERE / name))
    found, text = converted(source, kind or kinds.detect(source), folder)
    return load.from_text(text, folder=folder), found, text


def from_text(
    text: str, kind: kinds.Kind | None = None, name: str = "pasted"
) -> tuple[Inventory, ImportedInventory]:
    source = Source(name, text)
    found, written = converted(source, kind or kinds.detect(source), HERE)
    return load.from_text(written), found


def said(found: ImportedInventory) -> str:
    return "\n".join(f"{Path(note.file).name}:{note.line}: {note.text}" for note in found.notes)


@pytest.mark.parametrize("folder", ANSIBLE)
def test_variables_are_merged_as_ansible_merges_them(folder: str) -> None:
    answer = json.loads((HERE / f"{folder}.json").read_text())["_meta"]["hostvars"]
    ours = ansible.host_variables(_source(str(HERE / folder / ANSIBLE[folder])))
    # Ansible leaves out hosts without any variable.
    assert {name for name, variables in ours.items() if variables} == set(answer)
    for host, variables in ours.items():
        theirs = {n: v for n, v in answer.get(host, {}).items() if "__ansible_vault" not in str(v)}
        assert {n: v.value for n, v in variables.items() if not v.vault} == theirs, host


@pytest.mark.parametrize("folder", ANSIBLE)
def test_groups_have_the_members_that_ansible_gives_them(folder: str) -> None:
    answer = json.loads((HERE / f"{folder}.json").read_text())

    def members(group: str) -> set[str]:
        entry = answer.get(group, {})
        return set(entry.get("hosts", ())).union(*(members(child) for child in entry.get("children", ())))

    inventory, _, _ = imported(f"{folder}/{ANSIBLE[folder]}")
    rename = {"2001:db8::7": "node-2001-db8-7"}
    groups = {group for node in inventory.nodes for group in node.groups}
    left_out = {group for group in set(answer) - {"_meta", "all", "ungrouped"} - groups if members(group)}
    assert left_out <= {"windows"}
    for group in groups:
        assert {n.name for n in inventory.nodes if group in n.groups} == {
            rename.get(host, host) for host in members(group)
        }, group


def test_an_ansible_ini_inventory() -> None:
    inventory, found, text = imported("ansible_ini/hosts.ini")
    gpu01, gpu03, gpu20 = (inventory.node(name) for name in ("gpu01", "gpu03", "gpu20"))
    assert (gpu01.address, gpu01.user, gpu01.port) == ("gpu01", "ubuntu2", 22)
    assert (gpu01.proxy_jump, gpu01.become) == ("jump@bastion.example.org:2200", Become.SUDO)
    assert (gpu03.address, gpu03.port) == ("10.0.0.33", 2203)
    assert (gpu20.user, gpu20.port, gpu20.identity_file) == ("admin", 2222, None)
    assert inventory.node("nas-b.example.org").python == "/usr/bin/python3.11"
    assert inventory.node("node-2001-db8-7").address == "2001:db8::7"
    assert "gpu[04-16]" in text
    notes = said(found)
    assert "vault.yml:1: not imported: the file is encrypted by ansible-vault" in notes
    assert "hosts.ini:34: the secret in ansible_become_password" in notes
    assert "hosts.ini:14: win1 is not imported" in notes
    assert "hosts.ini:21: the variable ntp_server" in notes
    assert "identity_file ~/.ssh/cluster of gpu01" in notes


def test_no_secret_of_a_source_is_written_or_said() -> None:
    for name in ("ansible_ini/hosts.ini", "ansible_yaml/site.yml"):
        _, found, text = imported(name)
        for secret in ("hunter2", "sesame", "abc123", "61623334", "36663864"):
            assert secret not in text + said(found)


def test_an_ansible_yaml_inventory() -> None:
    inventory, found, _ = imported("ansible_yaml/site.yml")
    assert inventory.node("login").connection == "local"
    assert inventory.node("a100-01").proxy_jump == "ops@bastion:2200"
    assert (inventory.node("a100-04").user, inventory.node("a100-04").port) == ("spare", 4022)
    assert inventory.node("h200-2.example.org").port == 2222
    assert inventory.node("h200-3.example.org").port == 2303
    assert "ansible_user is not imported: it is a template" in said(found)
    assert "the vault value of ansible_become_pass" in said(found)


@pytest.mark.parametrize("folder", ANSIBLE)
def test_what_ansible_inventory_lists_is_read_as_its_source_is(folder: str) -> None:
    source, found, _ = imported(f"{folder}/{ANSIBLE[folder]}")
    listed, also_found, _ = imported(f"{folder}.json")
    # Groups by name: the list has them in an order of its own, and encrypted values of files are not in it.
    ours = {
        node.name: node.model_copy(update={"groups": tuple(sorted(node.groups))}) for node in source.nodes
    }
    theirs = {
        node.name: node.model_copy(update={"groups": tuple(sorted(node.groups))}) for node in listed.nodes
    }
    assert theirs == ours
    assert ("vault" in said(found)) == ("vault" in said(also_found)) or folder == "ansible_ini"


@pytest.mark.parametrize(
    ("text", "said_of_it"),
    [
        ("all: {hosts: [n1]}\n", ":1: hosts of the group all is a list; expected a mapping"),
        ("all:\n  hosts: {n1: }\n  children:\n    - gpu\n", ":4: children of the group all is a list"),
        ("all:\n  hosts: {n1: }\n  vars: [a]\n", ":3: vars of the group all is a list"),
    ],
)
def test_a_list_that_ansible_refuses_in_yaml_is_refused(text: str, said_of_it: str) -> None:
    with pytest.raises(InventoryError, match=re.escape(said_of_it)):
        from_text(text)


def test_one_host_or_child_may_be_a_text_and_a_list_is_no_group_in_yaml() -> None:
    """As ansible-inventory 2.19 lists it."""
    inventory, found = from_text("all: {hosts: n1, children: gpu}\ngpu: {hosts: {n2: }}\nrest: [n3]\n")
    assert [(node.name, node.groups) for node in inventory.nodes] == [("n1", ()), ("n2", ("gpu",))]
    assert "the group rest is not imported: expected a mapping" in said(found)


def test_an_inventory_script_may_list_hosts_alone() -> None:
    text = """{"gpu": ["gpu01", "gpu02"], "rest": {"hosts": ["nas"], "vars": {"ansible_user": "ops"}},
        "every": {"children": ["gpu", "rest"]}, "_meta": {"hostvars": {"gpu02": {"ansible_port": 2222}}}}"""
    inventory, _ = from_text(text)
    assert [(node.name, node.port, node.user) for node in inventory.nodes] == [
        ("gpu01", None, None), ("gpu02", 2222, None), ("nas", None, "ops")
    ]  # fmt: skip
    assert inventory.node("gpu01").groups == ("gpu", "every")


def test_the_key_file_is_carried_where_it_is_here(tmp_path: Path) -> None:
    key = tmp_path / "id"
    key.touch()
    inventory, found = from_text(f"[g]\na ansible_ssh_private_key_file={key}\n")
    assert inventory.nodes[0].identity_file == str(key)
    assert not found.notes


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("web[01:10:2]", ["web01", "web03", "web05", "web07", "web09"]),
        ("db-[a:c]x[1:2]", ["db-ax1", "db-ax2", "db-bx1", "db-bx2", "db-cx1", "db-cx2"]),
        ("plain", ["plain"]),
        ("n[:2]", ["n0", "n1", "n2"]),
    ],
)
def test_ansible_host_ranges(pattern: str, names: list[str]) -> None:
    inventory, _ = from_text(f"[g]\n{pattern}\n", kinds.Kind.ansible)
    assert [node.name for node in inventory.nodes] == names


@pytest.mark.parametrize("pattern", ["w[5:1]", "w[01:100]", "w[a:9]", "w[1:5:0]", "w[1:999999999]"])
def test_an_impossible_ansible_range_is_named(pattern: str) -> None:
    _, found = from_text(f"[g]\nok\n{pattern}\n", kinds.Kind.ansible)
    assert "pasted:3: not imported" in said(found)


def test_groups_in_a_circle_end() -> None:
    inventory, found = from_text("[a]\nh1\n[a:children]\nb\n[b:children]\na\n")
    assert [node.name for node in inventory.nodes] == ["h1"]
    assert "the group a contains itself" in said(found)


def test_an_openmpi_hostfile() -> None:
    inventory, found, text = imported("openmpi.hostfile")
    assert [(n.name, n.address, n.slots) for n in inventory.nodes] == [
        ("gpu01", "gpu01", 10),
        ("gpu02", "gpu02", 8),
        ("gpu03", "gpu03", 8),
        ("gpu04", "10.0.0.4", 8),
        ("gpu05", "gpu05", 8),
        ("gpu06", "gpu06", None),
        ("gpu07", "gpu07", None),
    ]
    assert inventory.node("gpu05").user == "root"
    assert 'name: "gpu[02-03]"' in text
    notes = said(found)
    assert "openmpi.hostfile:2: max_slots=8 is not imported" in notes
    assert "openmpi.hostfile:7: 'slot' is for rankfiles; did you mean slots?" in notes
    assert "openmpi.hostfile:10: not imported: '^gpu09'" in notes


def test_an_mpich_machinefile() -> None:
    inventory, found, _ = imported("machinefile")
    assert [(n.name, n.address, n.slots, n.user) for n in inventory.nodes] == [
        ("gpu01", "gpu01", 8, None),
        ("gpu02", "gpu02", 8, "ubuntu"),
        ("192.0.2.3", "192.0.2.3", 4, None),
        ("node-2001-db8-4", "2001:db8::4", 4, None),
    ]
    assert "machinefile:2: ifname=eth1 is not imported" in said(found)


def test_a_host_listed_once_per_rank_has_as_many_slots() -> None:
    inventory, _ = from_text("a\na\na\nb\n", kinds.Kind.hostfile)
    assert [(n.name, n.slots) for n in inventory.nodes] == [("a", 3), ("b", None)]


def test_our_own_hostfiles_come_back() -> None:
    from clusterctl.artifacts import hostfile

    hosts = (("gpu1", 8), ("gpu2", 4))
    for dialect in hostfile.Dialect:
        inventory, _ = from_text(hostfile.render(hosts, dialect=dialect), kinds.Kind.hostfile)
        assert tuple((n.name, n.slots) for n in inventory.nodes) == hosts
    text = hostfile.render(hosts, addresses={"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"})
    inventory, _ = from_text(text, kinds.Kind.hostfile)
    assert [(n.name, n.address) for n in inventory.nodes] == [("gpu1", "10.0.0.1"), ("gpu2", "10.0.0.2")]


@pytest.mark.parametrize(
    ("name", "nodes", "gpus", "groups"),
    [
        ("sinfo_N_l.txt", "gpu[01-04],cpu1", {}, {"gpu": "gpu[01-04]", "big": "gpu02", "cpu": "cpu1"}),
        ("sinfo_o.txt", "gpu[01-16,20],old[1-2],cpu[001-003]", {"gpu01": 8, "old2": 4, "cpu001": None}, {}),
        ("scontrol_node.txt", "gpu[01-02]", {"gpu02": 8}, {"gpu": "gpu[01-02]", "all": "gpu[01-02]"}),
        ("slurm.conf", "n[1-4],login1", {"n4": 4, "login1": 0}, {"batch": "n[1-3]"}),
        ("hostnames.txt", "gpu[01-03],spare", {}, {}),
        ("expression.txt", "gpu[01-16,20],rack[1-2]n[01-03]", {}, {}),
    ],
)
def test_slurm(name: str, nodes: str, gpus: dict[str, int | None], groups: dict[str, str]) -> None:
    from clusterctl.inventory import nodeset

    inventory, _, _ = imported(name)
    assert tuple(node.name for node in inventory.nodes) == nodeset.expand(nodes)
    assert {name: inventory.node(name).gpus for name in gpus} == gpus
    for group, members in groups.items():
        inside = tuple(node.name for node in inventory.nodes if group in node.groups)
        assert inside == nodeset.expand(members), group


def test_slurm_addresses_and_states() -> None:
    inventory, _, text = imported("slurm.conf")
    assert inventory.node("n3").address == "10.2.0.13"
    assert 'address: "10.2.0.[11-14]"' in text
    _, found, _ = imported("sinfo_N_l.txt")
    assert "sinfo_N_l.txt:6: gpu03: imported, although Slurm reports the state drained" in said(found)
    assert imported("scontrol_node.txt")[0].node("gpu02").address == "10.0.0.2"


def test_sinfo_with_bars_and_with_reasons_first() -> None:
    inventory, _ = from_text("HOSTNAMES|GRES|PARTITION\ngpu1|gpu:8|p*\ngpu2|gpu:8|p*\n")
    assert [(n.name, n.gpus, n.groups) for n in inventory.nodes] == [
        ("gpu1", 8, ("p",)),
        ("gpu2", 8, ("p",)),
    ]
    inventory, _ = from_text(
        "REASON  USER  TIMESTAMP  NODELIST\nbad fan 3  root  2025-07-01T10:00:00  gpu[3-4]\n"
    )
    assert [n.name for n in inventory.nodes] == ["gpu3", "gpu4"]


def ssh_g(config: Path, host: str) -> dict[str, list[str]]:
    ssh = shutil.which("ssh")
    assert ssh, "ssh is missing: tests/prerequisites.sh installs it"
    done = subprocess.run(
        (ssh, "-G", "-F", str(config), host), capture_output=True, text=True, timeout=20, check=True
    )
    options: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key, []).append(value)
    return options


def test_an_ssh_config_reads_as_ssh_reads_it(tmp_path: Path) -> None:
    """The judge is ``ssh -G``, over the file without its Match section, which is named instead."""
    text = (HERE / "ssh/config").read_text()
    for path in (HERE / "ssh/conf.d").iterdir():
        text = text.replace("Include conf.d/*.conf", path.read_text().rstrip() + "\nHost *")
    begin = text.index("Match host")
    plain = text[:begin] + text[text.index("Host *.example.org") :]
    config = tmp_path / "config"
    config.write_text(plain)
    keys = tmp_path / ".ssh"
    keys.mkdir()
    inventory, found, _ = imported("ssh/config")
    assert [node.name for node in inventory.nodes] == ["gpu1", "lab", "bastion", "gpu2", "gpu3", "old", "odd"]
    for node in inventory.nodes:
        answer = ssh_g(config, node.name)
        assert [node.address] == answer["hostname"], node.name
        assert [str(node.port or 22)] == answer["port"], node.name
        if node.user is not None:
            assert [node.user] == answer["user"], node.name
        if node.name != "old":  # its jump stands in a ProxyCommand
            assert [node.proxy_jump] == answer.get("proxyjump", [None]), node.name
    assert inventory.node("old").proxy_jump == "jump@bastion"
    notes = said(found)
    assert "config:22: 'Match host gpu2 exec" in notes
    assert "config:33: proxycommand is not imported" in notes
    assert "config:20: forwardagent is not imported" in notes
    assert "config:4: bastion is also a jump host" in notes
    assert not Path("/tmp/never").exists()


def test_what_ssh_would_take_first_is_taken(tmp_path: Path) -> None:
    keys = [tmp_path / name for name in ("a", "b c")]
    for key in keys:
        key.touch()
    config = (
        f'Host x\n  IdentityFile "{keys[1]}"\n  IdentityFile {keys[0]}\nHost *\n  IdentityFile {keys[0]}\n'
    )
    inventory, found = from_text(config)
    assert inventory.nodes[0].identity_file == str(keys[1])
    assert "a further identityfile is not imported" in said(found)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line_of_an_ssh_config(end: str, tmp_path: Path) -> None:
    text = (
        f"# a comment{end}User eve\nHost x\n  # of this host{end}HostName 192.0.2.9\n  HostName 192.0.2.1\n"
    )
    _, found = from_text(text)
    (node,) = found.nodes
    (tmp_path / "config").write_bytes(text.encode())
    answer = ssh_g(tmp_path / "config", "x")
    assert (node.name, node.settings) == ("x", {})
    assert [node.address] == answer["hostname"] == ["192.0.2.1"]
    assert answer["user"] != ["eve"]


def test_of_jumps_and_commands_the_first_counts_and_no_node_is_behind_itself() -> None:
    inventory, _ = from_text(
        "Host bastion\n  ProxyCommand none\nHost x\n  ProxyCommand ssh -W %h:%p first\nHost y\nHost *\n"
        "  ProxyJump bastion\n  ProxyCommand ssh -W %h:%p late\n"
    )
    assert [node.proxy_jump for node in inventory.nodes] == ["none", "first", "bastion"]


def test_a_jump_that_a_host_switches_off_stays_off() -> None:
    """Else a section of ~/.ssh/config that matches the address of gpu02 would set one at login."""
    text = "Host gpu02\n  HostName 192.0.2.4\n  {}\nHost *\n  ProxyJump bastion\n"
    for line in ("ProxyJump none", "ProxyCommand none"):
        inventory, _ = from_text(text.format(line))
        target = resolve(inventory.nodes[0], lambda host, user: {"proxyjump": ("bastion",)})
        assert (inventory.nodes[0].proxy_jump, target.jump, target.proxy_command) == ("none", None, None)


@pytest.mark.parametrize("user", ["ops", None])
def test_the_tokens_of_a_jump_in_a_proxy_command_are_filled(user: str | None) -> None:
    text = "Host gpu01 !jump\n  ProxyCommand ssh -W %h:%p -q %r@jump-%n\n"
    inventory, found = from_text(text + (f"  User {user}\n" if user else ""))
    assert inventory.nodes[0].proxy_jump == (f"{user}@jump-gpu01" if user else None)
    assert ("the jump host %r@jump-gpu01 of gpu01 is not imported" in said(found)) == (user is None)
    node = Node(name="gpu01", address="192.0.2.4", user=user)
    options = {"proxycommand": ("ssh", "-W", "%h:%p", "-q", "%r@jump")}
    target = resolve(node, lambda host, user: {} if host == "jump" else options)
    assert target.jump is not None
    assert (target.jump.user, target.jump.host) == (user or getpass.getuser(), "jump")


def test_a_file_that_keeps_no_host_key_is_not_carried() -> None:
    inventory, found = from_text("Host x\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n")
    assert inventory.nodes[0].known_hosts is None
    assert "userknownhostsfile is not imported" in said(found)


def test_what_some_hosts_include_is_for_these_and_folders_may_be_patterns(tmp_path: Path) -> None:
    (tmp_path / "d" / "x").mkdir(parents=True)
    (tmp_path / "d" / "x" / "config").write_text("Host *\n  User included\nHost nas\n  Port 2222\n")
    (tmp_path / "d" / ".swap").write_text("no line of ssh_config\n")
    file = tmp_path / "config"
    file.write_text(
        "Host gpu*\n  Include d/*/config d/* ~no-such-user/x\nHost gpu01 nas\n  HostName %h.example\n"
    )
    source = _source(str(file))
    assert list(source.beside) == [str(tmp_path / "d" / "x" / "config")]
    found, _ = converted(source, kinds.Kind.ssh_config, tmp_path)
    settings = {node.name: (node.address, dict(node.settings)) for node in found.nodes}
    assert settings == {"gpu01": ("gpu01.example", {"user": "included"}), "nas": ("nas.example", {})}


@pytest.mark.parametrize(
    "text",
    [
        "[g]\nok ansible_port=²\n",
        "[g]\nok ansible_ssh_common_args='-p ²'\n",
        "[g]\nok\n[g:vars]\nansible_group_priority=--5\n",
        "ok slots=²\n",
        "Host ok\n  Port ²\n",
    ],
)
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    inventory, _ = from_text(text)
    assert [(node.name, node.port, node.slots) for node in inventory.nodes] == [("ok", None, None)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[g]\nok ansible_port=9\n[g:vars]\nansible_group_priority=9\n", kinds.Kind.ansible),
        ("[g]\nok ansible_ssh_common_args='-p 9'\n", kinds.Kind.ansible),
        ("[g]\nok\nw[1:2:9]\n", kinds.Kind.ansible),
        ("ok slots=9\nok slots=9\n", kinds.Kind.hostfile),
        ("ok:9\n", kinds.Kind.hostfile),
        ("NodeName=ok Gres=gpu:h100:9\n", kinds.Kind.slurm),
        ("Host ok\n  Port 9\n", kinds.Kind.ssh_config),
    ],
)
def test_a_number_of_thousands_of_digits_is_left_behind_and_no_error_of_python(
    text: str, kind: kinds.Kind
) -> None:
    inventory, _ = from_text(text.replace("9", "9" * 5000), kind)
    first = inventory.nodes[0]
    assert (first.name, first.port, first.slots, first.gpus) == ("ok", None, None, None)


def test_groups_that_are_nested_without_end_are_refused() -> None:
    text = "[g3000]\nok\n" + "".join(f"[g{n}:children]\ng{n + 1}\n" for n in reversed(range(3000)))
    with pytest.raises(InventoryError, match="groups are nested more than"):
        from_text(text, kinds.Kind.ansible)


def test_nothing_is_run_and_nothing_else_is_guessed() -> None:
    with pytest.raises(InventoryError, match="is a program"):
        kinds.detect(Source("inventory.py", "#!/usr/bin/env python3\n"))
    with pytest.raises(InventoryError, match="is already an inventory of clusterctl's"):
        kinds.detect(Source("mine.yaml", "version: 1\nnodes:\n  - name: gpu01\n"))
    with pytest.raises(InventoryError, match="unknown inventory format"):
        kinds.detect(Source("README", "Dear colleague\nthe nodes are gpu01 and gpu02\n"))
    assert kinds.detect(Source("names", "# two of them\ngpu01 # the first\n\ngpu02\n")) is kinds.Kind.slurm
    with pytest.raises(InventoryError, match="no node found"):
        kinds.read(Source("empty", "# nothing\n"), kinds.Kind.hostfile)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name,address,gpus\ngpu1,10.0.0.1,8\n", "1: 'name,address,gpus' looks like the heading"),
        ('"hostname";"ip"\n"gpu1";"10.0.0.1"\n', '1: \'"hostname";"ip"\' looks like the heading'),
        ("# rack A\nhostname\ngpu1\n", "2: 'hostname' looks like the heading"),
        ("HOST SLOTS\ngpu1 slots=8\n", "1: 'HOST SLOTS' looks like the heading"),
        ("host ip\ngpu-1 10.0.0.1\n", "1: 'host ip' looks like the heading"),
        ("gpu1,10.0.0.1\n", "1: 'gpu1,10.0.0.1' looks like fields of one node"),
        ("gpu1,A\ngpu2,8\n", "2: 'gpu2,8' looks like fields of one node"),
    ],
)
def test_fields_and_headings_of_a_table_are_no_nodes(text: str, line: str) -> None:
    with pytest.raises(InventoryError, match=rf"^pasted:{re.escape(line)}"):
        from_text(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[1-2,4],gpu7\n", "gpu[1-2,4,7]"),
        ("10.0.0.1,10.0.0.2\n", "10.0.0.[1-2]"),
        ("node\n", "node"),
        ("gpu\ncpu\n", "gpu,cpu"),
        ("Host node\n  HostName 10.0.0.1\n  PKCS11Provider none\n", "node"),
    ],
)
def test_names_are_not_taken_for_a_table(text: str, names: str) -> None:
    assert tuple(node.name for node in from_text(text)[0].nodes) == nodeset.expand(names)


def test_a_node_that_an_inventory_would_refuse_does_not_keep_out_the_others() -> None:
    """Zero-padded addresses are octal to a resolver; two spellings of one address are one machine."""
    inventory, found = from_text(
        "10.0.0.010 slots=8\n10.0.0 slots=8\nfd00::1 slots=8\nfd00:0::1 slots=8\nok slots=8\n"
    )
    assert [node.name for node in inventory.nodes] == ["node-fd00-1", "ok"]
    assert "pasted:1: 10.0.0.010 is not imported: '10.0.0.010' is not a valid address; remove" in said(found)
    assert "pasted:4: node-fd00-0-1 is not imported: it has the same address and port as node-fd00-1" in said(
        found
    )
    _, found = from_text("[g]\nok ansible_port=ssh\n", kinds.Kind.ansible)
    assert "pasted:2: the port 'ssh' is not imported: expected a number" in said(found)


def test_a_hostile_source_cannot_write_into_the_inventory_or_act_on_the_terminal() -> None:
    source = Source(
        "x\nnodes: []\n", "[g]\nok ansible_user=\"a\\u001b[31m\" v='\x1b]0;title\x07'\n-bad\n$(id)\n"
    )
    found, text = converted(source, kinds.Kind.ansible, HERE)
    assert [node.name for node in load.from_text(text).nodes] == ["ok"]
    assert all(str(note).isprintable() for note in found.notes)
    assert isinstance(found.notes[0], ImportNote)


def test_a_group_that_is_called_like_a_setting_is_not_explained_as_one() -> None:
    source = Source("pasted", "[gpus]\na\nb\n")
    _, text = converted(source, kinds.Kind.ansible, HERE)
    assert "  gpus:\n    nodes: " in text


def test_aliases_that_make_many_groups_of_few_lines_are_refused_at_once() -> None:
    lines = ["x0: &x0 {hosts: {h: }}"]
    for depth in range(1, 9):
        lines.append(
            f"x{depth}: &x{depth} {{children: {{{', '.join(f'c{n}: *x{depth - 1}' for n in range(8))}}}}}"
        )
    with pytest.raises(InventoryError, match="expand to more than 100000 values"):
        from_text("\n".join(lines) + "\n", kinds.Kind.ansible)


def test_groups_of_clustershell() -> None:
    inventory, found, _ = imported("clustershell.cfg")
    assert [node.name for node in inventory.nodes] == list(nodeset.expand("example[0,4-6,32-35]"))
    groups = {
        group: [n.name for n in inventory.nodes if group in n.groups]
        for group in dict.fromkeys(name for node in inventory.nodes for name in node.groups)
    }
    assert {group: nodeset.fold(names) for group, names in groups.items()} == {
        "adm": "example0", "oss": "example[4-5]", "mds": "example6", "io": "example[4-6]",
        "compute": "example[32-35]", "gpu": "example[34-35]",
    }  # fmt: skip
    assert said(found).splitlines() == [
        "clustershell.cfg:9: @compute!@gpu is not imported: it is not another group of this file",
        "clustershell.cfg:9: @* is not imported: it is not another group of this file",
        "clustershell.cfg:10: @loop is not imported: it is not another group of this file",
        "clustershell.cfg:11: @slurm:gpu is not imported: it is not another group of this file",
    ]


def test_groups_that_name_each_other_without_end_are_bounded() -> None:
    text = "g0: n[1-9]\n" + "".join(f"g{n}: @g{n - 1},@g{n - 1}\n" for n in range(1, 3000))
    kinds.read(Source("groups", text), kinds.Kind.clustershell)
    with pytest.raises(InventoryError, match="expand to more than"):
        kinds.read(
            Source("groups", "g0: n[1-60000]\n" + "".join(f"g{n}: @g{n - 1}\n" for n in range(1, 99))),
            kinds.Kind.clustershell,
        )


def test_a_hosts_file() -> None:
    inventory, found, _ = imported("etc.hosts")
    assert {node.name: node.address for node in inventory.nodes} == {
        "gpu01": "10.0.0.1", "gpu02": "10.0.0.2", "storage.example": "10.0.0.9",
    }  # fmt: skip
    assert said(found).splitlines() == [
        *(f"etc.hosts:{line}: {one} is not imported: not the address of a node" for line, one in (
            (1, "127.0.0.1"), (2, "127.0.1.1"), (3, "::1"), (4, "ff02::1"), (5, "255.255.255.255"))),
        "etc.hosts:7: other names are not imported: gpu01.cluster.example gpu01-ib",
        "etc.hosts:8: other names are not imported: gpu02.cluster.example",
        "etc.hosts:9: fd00::2 is not imported: gpu02 is on line 8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("SwitchName=s1 Nodes=gpu[01-16]\n", "is Slurm's topology", "scontrol show node"),
        ("gpu[01-16] compute,gpu\nlogin1 login,rack=2\n", "is a genders file", "nodeattr -n ATTRIBUTE"),
    ],
)
def test_formats_that_hold_no_addresses_are_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(InventoryError, match=message) as raised:
        kinds.detect(Source("pasted", text))
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("[a]\nn1:22\n[b]\nn1:23\n", 22),
        ("[a]\nn1\n[b]\nn1:23\n", None),
        ("[a]\nn1 ansible_port=23\n[b]\nn1:24\n", 23),
        ("[a]\nn1:22\n[b]\nn1 ansible_port=25\n", 25),
    ],
)
def test_a_port_behind_a_name_counts_where_ansible_meets_the_host_first(text: str, port: int | None) -> None:
    inventory, _ = from_text(text, kinds.Kind.ansible)
    assert [node.port for node in inventory.nodes] == [port]


def test_a_host_name_that_looks_like_a_number_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    inventory, _ = from_text("[a]\nn1 ansible_host=gpu-1.internal\n", kinds.Kind.ansible)
    assert [node.address for node in inventory.nodes] == ["gpu-1.internal"] and not recwarn.list


@pytest.mark.parametrize("text", ["node1:2222\n", "node1:22\n", "node1:7 slots=8\n", "node1:2222 slots=8\n"])
def test_a_port_in_a_hostfile_is_no_number_of_slots(text: str) -> None:
    inventory, found = from_text(text, kinds.Kind.hostfile)
    assert [node.slots for node in inventory.nodes] == [8 if "slots" in text else None]
    assert "behind node1 is not imported: if it is a port, write `port: " in said(found)


@pytest.mark.parametrize(
    "text",
    [
        "NodeName=n1 NodeAddr=192.0.2.8 Gres=gpu:8 Reason=RMA State=DOWN\n",
        (
            "NodeName=n1 Gres=gpu:8 NodeAddr=192.0.2.8 OS=Linux 5.15 #1 SMP State=IDLE  RealMemory=1 State=DOWN "
            "Partitions=a  BootTime=x Reason=was State=IDLE [root@2026-11-02T00:00:00]\n"
        ),
    ],
    ids=["slurm.conf", "scontrol -o"],
)
def test_a_text_on_the_line_of_a_record_hides_no_state(text: str) -> None:
    inventory, found = from_text(text, kinds.Kind.slurm)
    assert [(node.address, node.gpus) for node in inventory.nodes] == [("192.0.2.8", 8)]
    assert said(found).endswith("n1: imported, although Slurm reports the state DOWN")
    assert inventory.nodes[0].groups == (("a",) if "Partitions" in text else ())


def test_texts_in_records_of_slurm_are_no_settings_and_mig_instances_no_gpus() -> None:
    inventory, found = from_text(
        "NodeName=n1 Gres=gpu:8 State=IDLE\n   OS=Linux NodeAddr=192.0.2.8\n   Reason=was State=DRAIN [root@x]\n\n"
        "NodeName=n2 State=IDLE Comment=old NodeAddr=192.0.2.9\n\n"
        'NodeName=n3 Reason="to State=DOWN" Gres=gpu:a100:7,gpu:a100_3g.20gb:4 State=DRAIN\n\n'
        "NodeName=n4 Gres=gpu:a100_1g.5gb:28 State=IDLE\n"
    )
    nodes = {node.name: (node.address, node.gpus) for node in inventory.nodes}
    assert nodes == {"n1": ("n1", 8), "n2": ("n2", None), "n3": ("n3", 7), "n4": ("n4", None)}
    assert said(found) == "pasted:7: n3: imported, although Slurm reports the state DRAIN"
