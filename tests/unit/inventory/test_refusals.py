"""What an inventory may not say: each refused with file, line, key and what was expected."""

from __future__ import annotations

import pytest

from clusterctl.errors import InventoryError
from clusterctl.inventory import load, yaml_source

NODE = "nodes: [{name: a}]\n"


def refusal(text: str | bytes) -> str:
    with pytest.raises(InventoryError) as caught:
        load.from_text(text)
    assert caught.value.exit_code == 4
    return caught.value.message


CASES = {
    "unknown key": (
        "version: 1\nnodes:\n  - name: a\n  - name: b\n    prot: 22\n",
        (
            "inventory.yaml:5: nodes[1].prot: unknown key; did you mean port? Expected one of user, port, "
            "identity_file, known_hosts, proxy_jump, become, connection, gpus, slots, "
            "socket_ifname, rdma_devices, python, mpirun, all_reduce_perf, requirements, container, env, name, address"
        ),
    ),
    "unknown key at the top": (
        "version: 1\nslots: 8\n" + NODE,
        "inventory.yaml:2: slots: unknown key; expected one of version, launcher, defaults, groups, nodes",
    ),
    "a key of Ansible": (
        "version: 1\nnodes:\n  - name: gpu01\n    ansible_host: 10.0.0.1\n",
        "inventory.yaml:4: nodes[0].ansible_host: unknown key; did you mean address? Expected one of user, port",
    ),
    "a key of Ansible at the top": (
        "version: 1\nhosts: []\n" + NODE,
        "inventory.yaml:2: hosts: unknown key; did you mean nodes? Expected one of version, launcher, defaults",
    ),
    "unknown key deep inside": (
        "version: 1\ndefaults:\n  requirements:\n    acs:\n      invm: leave\n" + NODE,
        (
            "inventory.yaml:5: defaults.requirements.acs.invm: unknown key; did you mean in_vm? Expected one of in_vm, "
            "gpu_devices, nic_devices, persist"
        ),
    ),
    "node given twice": (
        "version: 1\nnodes:\n  - name: gpu[1-3]\n    address: 10.0.0.[1-3]\n  - name: gpu2\n",
        "inventory.yaml:5: nodes[1].name: the node gpu2 is given twice; it is already on line 3",
    ),
    "backward range": (
        "version: 1\nnodes:\n  - name: gpu[16-01]\n",
        "inventory.yaml:3: nodes[0].name: 'gpu[16-01]': the range 16-01 runs backwards; write 01-16",
    ),
    "address twice": (
        "version: 1\nnodes:\n  - {name: a, address: h}\n  - name: b\n    address: h\n    port: 22\n",
        "inventory.yaml:5: nodes[1].address: b has the same address and port as a: h port 22",
    ),
    "name is another's address": (
        "version: 1\nnodes:\n  - name: a\n    address: b\n  - name: B\n",
        "inventory.yaml:5: nodes[1].name: B has the same address and port as a: B port 22",
    ),
    "ranges of different length": (
        "version: 1\nnodes:\n  - name: gpu[1-3]\n    address: 10.0.0.[1-4]\n",
        "inventory.yaml:4: nodes[0].address: 10.0.0.[1-4] has 4 addresses, but gpu[1-3] has 3 nodes",
    ),
    "zero nodes": ("version: 1\nnodes: []\n", "inventory.yaml:2: nodes: expected at least one node"),
    "no nodes at all": ("version: 1\n", "inventory.yaml:1: nodes: this key is missing"),
    "nodes as a mapping": (
        "version: 1\nnodes:\n  gpu01: {port: 22}\n",
        "inventory.yaml:2: nodes: expected a list, not a mapping; write '- name: gpu01', its keys below, for each node",
    ),
    "nodes without a list": ("version: 1\nnodes:\n", "inventory.yaml:2: nodes: expected a list, not null"),
    "version 2": (
        "version: 2\n" + NODE,
        "inventory.yaml:1: version: expected version 1 (written without quotes), not 2",
    ),
    "version as text": (
        'version: "1"\n' + NODE,
        "inventory.yaml:1: version: expected version 1 (written without quotes), not '1'",
    ),
    "version true": (
        "version: true\n" + NODE,
        "inventory.yaml:1: version: expected version 1 (written without quotes), not true",
    ),
    "no version": (NODE, "inventory.yaml:1: version: this key is missing; add 'version: 1'"),
    "group of unknown nodes": (
        "version: 1\ngroups:\n  g:\n    nodes: a,b[1-2]\n" + NODE,
        "inventory.yaml:4: groups.g.nodes: b[1-2] are not nodes of this inventory",
    ),
    "group named like a node": (
        "version: 1\ngroups:\n  a: {nodes: a}\n" + NODE,
        "inventory.yaml:3: groups.a: a node has the same name; rename one, so that --limit is unambiguous",
    ),
    "group with a hostile name": (
        "version: 1\ngroups:\n  'x y': {nodes: a}\n" + NODE,
        (
            "inventory.yaml:3: groups.x y: 'x y' is not a group's name: letters (a-z, A-Z), digits, '.', '_' "
            "and '-', beginning and ending with a letter or digit"
        ),
    ),
    "a user name beyond ASCII": (
        "version: 1\ndefaults: {user: usér}\n" + NODE,
        (
            "inventory.yaml:2: defaults.user: 'usér' is not a user name: letters (a-z, A-Z), digits, '_', '-', '.', "
            "'@', '+' and '\\', beginning with a letter, digit or '_'"
        ),
    ),
    "an address beyond ASCII": (
        "version: 1\nnodes:\n  - name: a\n    address: höst\n",
        "nodes[0].address: 'höst' is not a host name or address: letters (a-z, A-Z), digits, '.', '_', '-', ':'",
    ),
    "a node name beyond ASCII": (
        "version: 1\nnodes:\n  - name: nodé\n",
        "nodes[0].name: 'nodé' is not a node name: letters (a-z, A-Z), digits, '.', '_' and '-', beginning and",
    ),
    "more RDMA devices than NCCL reads": (
        "version: 1\ndefaults:\n  rdma_devices: '=" + ",".join(f"mlx5_{i}" for i in range(33)) + "'\n" + NODE,
        "inventory.yaml:3: defaults.rdma_devices: lists 33 devices, of which NCCL reads the first 32",
    ),
    "unknown requirement": (
        "version: 1\ndefaults: {requirements: {skip: [peermen]}}\n" + NODE,
        "did you mean peermem?",
    ),
    "port out of range": (
        "version: 1\nnodes:\n  - name: a\n    port: 70000\n",
        "inventory.yaml:4: nodes[0].port: expected 65535 or less, not 70000",
    ),
    "port as text": (
        "version: 1\nnodes:\n  - name: a\n    port: '22'\n",
        "inventory.yaml:4: nodes[0].port: expected a whole number, without quotes, not '22'",
    ),
    "gpus as boolean": (
        "version: 1\nnodes:\n  - name: a\n    gpus: yes\n",
        "inventory.yaml:4: nodes[0].gpus: expected a whole number, without quotes, not true",
    ),
    "gpus with a fraction": (
        "version: 1\nnodes: [{name: a, gpus: 1.5}]\n",
        "nodes[0].gpus: expected a whole number",
    ),
    "a list for a mapping": (
        "version: 1\ndefaults: [user]\n" + NODE,
        "inventory.yaml:2: defaults: expected a mapping, not a list",
    ),
    "wrong choice": (
        "version: 1\ndefaults: {become: sduo}\n" + NODE,
        "inventory.yaml:2: defaults.become: expected auto, none or sudo, not 'sduo'; did you mean sudo?",
    ),
    "wrong union": (
        "version: 1\ndefaults: {requirements: {memlock: lots}}\n" + NODE,
        (
            "inventory.yaml:2: defaults.requirements.memlock: "
            "expected unlimited or a whole number, without quotes, not 'lots'"
        ),
    ),
    "list for a text": (
        "version: 1\ndefaults: {user: [a]}\n" + NODE,
        "inventory.yaml:2: defaults.user: expected text, not a list",
    ),
    "missing identity file": (
        "version: 1\ndefaults:\n  identity_file: /nowhere/id\n" + NODE,
        "inventory.yaml:3: defaults.identity_file: file not found: /nowhere/id",
    ),
    "home of nobody": (
        "version: 1\ndefaults: {identity_file: ~no-such-user-here/id}\n" + NODE,
        "defaults.identity_file: file not found",
    ),
    "missing module source": (
        "version: 1\ndefaults: {requirements: {peermem: {source: /nowhere/src}}}\n" + NODE,
        "defaults.requirements.peermem.source: directory or tarball not found: /nowhere/src",
    ),
    "variable name": (
        "version: 1\ndefaults: {env: {'A-B': x}}\n" + NODE,
        "defaults.env.A-B: 'A-B' is not a variable's name",
    ),
    # YAML 1.1 reads these as something else than text.
    "name no": (
        "version: 1\nnodes:\n  - name: no\n",
        'nodes[0].name: expected text, but YAML reads no as a boolean; write "no"',
    ),
    "name 12": ("version: 1\nnodes: [{name: 12}]\n", 'YAML reads 12 as a number; write "12"'),
    "name 1.5": ("version: 1\nnodes: [{name: 1.5}]\n", 'YAML reads 1.5 as a number; write "1.5"'),
    "name null": ("version: 1\nnodes: [{name: ~}]\n", 'YAML reads ~ as null; write "~"'),
    "name 010": ("version: 1\nnodes: [{name: 010}]\n", "010 is read by YAML 1.1 as a number"),
    "name 0x1f": ("version: 1\nnodes: [{name: 0x1f}]\n", "0x1f is read by YAML 1.1 as a number"),
    "name like a date": (
        "version: 1\nnodes: [{name: 2024-01-01}]\n",
        "2024-01-01 is read by YAML 1.1 as a date",
    ),
    "port in base 60": (
        "version: 1\nnodes: [{name: a, port: 22:22}]\n",
        "22:22 is read by YAML 1.1 as a number",
    ),
    "octal address": (
        "version: 1\nnodes: [{name: 'gpu[008-010]', address: '10.0.0.[008-010]'}]\n",
        "nodes[0].address: '10.0.0.008' is not a valid address; remove the leading zeros, which make a number octal",
    ),
    "address of three numbers": (
        "version: 1\nnodes: [{name: a, address: 10.0.0}]\n",
        "nodes[0].address: '10.0.0' is not a valid IPv4 address",
    ),
    "number beyond 255": (
        "version: 1\nnodes: [{name: 10.0.0.300}]\n",
        "nodes[0].name: '10.0.0.300' is not a valid IPv4 address; if it is a name, set the node's 'address' too",
    ),
    "address with a port": (
        "version: 1\nnodes: [{name: a, address: '10.0.0.1:2222'}]\n",
        "write the port as a key of its own: 'port: 2222'",
    ),
    "address in brackets": (
        "version: 1\nnodes: [{name: a, address: '[fd00::1]:2222'}]\n",
        "write an IPv6 address without brackets: fd00::1, and the port as a key of its own: 'port: 2222'",
    ),
    "address as a URL": (
        "version: 1\nnodes: [{name: a, address: 'ssh://10.0.0.1'}]\n",
        "write only the host here, and user and port as keys of their own",
    ),
    "address with a user": (
        "version: 1\nnodes: [{name: a, address: 'root@10.0.0.1'}]\n",
        "write only the host here, and user and port as keys of their own",
    ),
    "no blank behind the colon": (
        "version: 1\nnodes:\n  - name:gpu01\n",
        "write '- name: gpu01', with a blank behind the colon",
    ),
    "not quite IPv6": (
        "version: 1\nnodes: [{name: a, address: 'fe80:::1'}]\n",
        "'fe80:::1' is not a valid IPv6 address",
    ),
    "one address in two spellings": (
        "version: 1\nnodes: [{name: a, address: '::1'}, {name: b, address: '0:0::1'}]\n",
        "b has the same address and port as a: 0:0::1 port 22",
    ),
    "no address of a time server": (
        "version: 1\ndefaults: {requirements: {time_sync: {servers: [10.0.0.01]}}}\n" + NODE,
        "remove the leading zeros",
    ),
    "octal port": ("version: 1\nnodes: [{name: a, port: 0022}]\n", "0022 is read by YAML 1.1 as a number"),
    "infinity": (
        "version: 1\ndefaults: {requirements: {rdma_link: {min_rate_gbps: .inf}}}\n" + NODE,
        ".inf is read",
    ),
    "variable on": (
        "version: 1\ndefaults: {env: {A: on}}\n" + NODE,
        'YAML reads on as a boolean; write "on"',
    ),
    "key NO": (
        "version: 1\ndefaults: {env: {NO: x}}\n" + NODE,
        'the key NO is read by YAML as a boolean; write "NO"',
    ),
    "group 1": ("version: 1\ngroups: {1: {nodes: a}}\n" + NODE, "the key 1 is read by YAML as a number"),
    # What would become an option or a second line elsewhere.
    "option as address": (
        "version: 1\nnodes:\n  - name: a\n    address: -oProxyCommand=touch /tmp/x\n",
        "inventory.yaml:4: nodes[0].address: '-oProxyCommand=touch /tmp/x' is not a host name or address",
    ),
    "option as name": ("version: 1\nnodes:\n  - name: -oProxyCommand=x\n", "is not a node name"),
    "option as user": ("version: 1\ndefaults: {user: -oProxyCommand=x}\n" + NODE, "is not a user name"),
    "option as jump host": (
        "version: 1\ndefaults: {proxy_jump: -oProxyCommand=x}\n" + NODE,
        "is not [user@]host[:port]",
    ),
    "option as interface": ("version: 1\ndefaults: {socket_ifname: -x}\n" + NODE, "is not interface names"),
    "option as image": (
        "version: 1\ndefaults: {container: {image: --privileged}}\n" + NODE,
        "is not an image's name; it may not begin with '-'",
    ),
    "option as key file": ("version: 1\ndefaults: {identity_file: -x}\n" + NODE, "is not the path of a file"),
    "newline in address": (
        'version: 1\nnodes: [{name: a, address: "h\\nHost *"}]\n',
        "line break or another control",
    ),
    "escape in user": ('version: 1\ndefaults: {user: "\\e[31m"}\n' + NODE, "control character"),
    "control character in a key": ('version: 1\n"a\\tb": 1\n' + NODE, "control character"),
    "lone surrogate": ('version: 1\nnodes: [{name: "\\ud800"}]\n', "control character"),
    "space in address": ("version: 1\nnodes: [{name: a, address: 'b c'}]\n", "is not a host name"),
    # The file as a whole.
    "not YAML": ("version: 1\nnodes: [\n", "inventory.yaml:3: not YAML: "),
    "an item indented too deep": (
        "version: 1\nnodes:\n  - name: a\n   - name: b\n",
        "inventory.yaml:4: not YAML: this line is indented differently from the lines of the same list",
    ),
    "a key indented too deep": (
        "version: 1\ndefaults:\n  user: r\n   port: 3\n" + NODE,
        "inventory.yaml:4: not YAML: this line is indented too deep, or its value contains ': '",
    ),
    "a key without a colon": (
        "version: 1\nnodes\n  - name: a\n",
        "inventory.yaml:2: not YAML: expected 'key: value' or '- item'",
    ),
    "an open quotation mark": (
        "version: 1\nnodes:\n  - name: 'a\n    port: 2\n",
        "inventory.yaml:3: not YAML: a quotation mark is not closed",
    ),
    "a tab": ("version: 1\nnodes:\n\t- name: a\n", "start any token; indent with spaces, not with tabs"),
    "names of nodes as one text": ("version: 1\nnodes: 'gpu[1-'\n", "inventory.yaml:2: nodes: "),
    "names of a node as text": (
        "version: 1\nnodes:\n  - gpu01\n  - root@gpu02\n",
        "inventory.yaml:4: nodes[1]: 'root@gpu02' is not a valid address; write only the host here, and user and port",
    ),
    "a node given twice as text": (
        "version: 1\nnodes:\n  - gpu[1-2]\n  - gpu2\n",
        "inventory.yaml:4: nodes[1]: the node gpu2 is given twice; it is already on line 3",
    ),
    "a group as text": (
        "version: 1\nnodes: gpu[1-2]\ngroups:\n  rack1: gpu[2-3]\n",
        "inventory.yaml:4: groups.rack1: gpu3 is not a node of this inventory",
    ),
    "a user and a port in a node as text": (
        "version: 1\nnodes: ['root@gpu01:22']\n",
        "inventory.yaml:2: nodes[0]: expected a mapping, not 'root@gpu01:22'",
    ),
    "escape in a whole file": (
        'version: 1\ndefaults: {requirements: {cluster_file: {content: "a\\n\\e[31m"}}}\n' + NODE,
        "cluster_file.content: 'a??[31m' holds a line break or another control character",
    ),
    "empty": ("", "inventory.yaml: empty; an inventory has the keys 'version' and 'nodes'"),
    "only comments": ("# nothing\n", "inventory.yaml: empty"),
    "a list": ("- a\n", "inventory.yaml:1: expected a mapping"),
    "a text": ("gpu1", "inventory.yaml:1: expected a mapping"),
    "two documents": (
        "version: 1\n" + NODE + "---\nversion: 1\n",
        "inventory.yaml:4: a second YAML document",
    ),
    "key twice": (
        "version: 1\nnodes:\n  - name: a\n    port: 1\n    port: 2\n",
        "inventory.yaml:5: nodes[0].port: the key is given twice; it is already on line 4",
    ),
    "merge key": (
        "version: 1\ndefaults: &d {gpus: 8}\nnodes: [{<<: *d, name: a}]\n",
        "merge keys (<<) are not supported",
    ),
    "python tag": ("version: !!python/object/apply:os.system [x]\n" + NODE, "is not used in inventories"),
    "own tag": ("version: 1\nnodes: !vault [{name: a}]\n", "the tag '!vault' is not used"),
    "mapping as key": ("version: 1\n? {a: b}\n: c\n" + NODE, "a key must be plain text"),
    "escape beyond Unicode": ('version: "\\UFFFFFFFF"\n' + NODE, "not YAML"),
    "unknown alias": ("version: 1\nnodes: *x\n", "inventory.yaml:2: not YAML: found undefined alias"),
    "not UTF-8": (b"version: 1\nnodes:\n  - name: \xff\n", "inventory.yaml:3: not UTF-8 text"),
    "NUL byte": (b"version: 1\x00\n", "inventory.yaml"),
    "UTF-16": ("version: 1\n".encode("utf-16"), "not UTF-8"),
    "deep nesting": ("version: " + "[" * 5000, "nested more than 32 levels deep"),
    "too large": (b"#" * (yaml_source.MAX_BYTES + 1), "larger than 4194304 bytes"),
    "too many values": ("- a\n" * 1_000_000, "more than 100000 keys and values: not an inventory"),
    "self reference": ("version: 1\nnodes: &n [*n]\n", "aliases expand to more than"),
    "a million nodes": ("version: 1\nnodes: [{name: 'a[1-1000000]'}]\n", "at most 65536"),
    "many halves": (
        "version: 1\nnodes: [{name: 'a[1-40000]'}, {name: 'b[1-40000]'}]\n",
        "80000 nodes; at most 65536 are accepted",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused_with_line_key_and_expectation(case: str) -> None:
    text, expected = CASES[case]
    message = refusal(text)
    assert expected in message
    # Where the message is given with its place, it is the only one: no finding by the way.
    if expected.startswith("inventory.yaml:") and not expected.endswith(": "):
        assert len(message.splitlines()) == 1, message


def test_an_anchor_bomb_is_refused_at_once() -> None:
    lines = ["version: 1", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    message = refusal("\n".join(lines) + "\n")
    assert "aliases expand to more than 100000 values" in message
    assert len(message.splitlines()) == 1


def test_all_problems_are_told_in_the_order_of_their_lines() -> None:
    text = """\
version: 1
defaults:
  gpus: many
  sudo: true
nodes:
  - name: gpu[1-2]
    port: 0
  - address: 10.0.0.9
"""
    message = refusal(text)
    places = [line.split(": ")[0] + " " + line.split(": ")[1] for line in message.splitlines()]
    assert places == [
        "inventory.yaml:3 defaults.gpus",
        "inventory.yaml:4 defaults.sudo",
        "inventory.yaml:7 nodes[0].port",
        "inventory.yaml:8 nodes[1].name",
    ]


def test_a_flood_of_problems_is_cut() -> None:
    text = "version: 1\nnodes:\n" + "".join(f"  - {{name: n{i}, prot: 1}}\n" for i in range(50))
    lines = refusal(text).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "inventory.yaml: and 30 more problems"
