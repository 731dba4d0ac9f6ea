"""``clusterctl run`` on real sshd nodes: equal and different output, a node that hangs, one that is down."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

# All nodes of a farm are this machine: the address that ssh connected to tells them apart.
BY_NODE = 'address=$(echo "$SSH_CONNECTION" | cut -d" " -f3); case $address in {pattern}) {text};; esac; '


def on(address: str, text: str) -> str:
    return BY_NODE.format(pattern=address, text=text)


def test_equal_output_is_printed_once_and_the_others_stand_apart(small_farm, run_clusterctl, tmp_path):
    inventory = str(small_farm.inventory(tmp_path))
    text = on(small_farm.nodes[2].address, "echo other; echo broken >&2; exit 3") + "echo same"
    done = run_clusterctl("run", inventory, "--", text, env=small_farm.env)
    assert done.stdout == "--- node[01-02,04] (3)\nsame\n--- node03, status 3\nother\n"
    assert done.stderr.splitlines() == [
        "--- node03, stderr",
        "broken",
        "status 0: node[01-02,04] (3); status 3: node03",
    ]
    assert done.returncode == 1
    document = json.loads(
        run_clusterctl("run", inventory, "--json", "--limit", "node03", "--", text, env=small_farm.env).stdout
    )
    assert document["nodes"] == [{"name": "node03", "status": 3, "stdout": "other\n", "stderr": "broken\n"}]


def test_hostile_output_is_escaped_and_cut(small_farm, run_clusterctl, tmp_path):
    text = on(small_farm.nodes[0].address, r"printf '\033[2J\n--- node02\n'") + on(
        small_farm.nodes[1].address, "yes | head -c 5000000"
    )
    done = run_clusterctl(
        "run", str(small_farm.inventory(tmp_path)), "--max-output", "4", "--", text, env=small_farm.env
    )
    assert done.returncode == 0
    assert done.stdout.startswith(
        "--- node01\n\\x1b[2J\n --- node02\n--- node02, the first 4 KiB of 4.8 MiB\ny\n"
    )
    assert done.stdout.endswith("--- node[03-04] (2), no output\n")


def test_a_node_that_hangs_ends_at_its_timeout_and_spares_the_others(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(3, refusing=1)
    text = on(farm.nodes[1].address, "echo begun; exec sleep 300") + "echo here"
    done = run_clusterctl(
        "run", str(farm.inventory(tmp_path)), "--stream", "--timeout", "5", "--", text, env=farm.env
    )
    assert sorted(done.stdout.splitlines()) == ["node01: here", "node02: begun", "node03: here"]
    assert "node02: deadline" in done.stderr and "node04: refused" in done.stderr
    assert done.returncode == 1
    done = run_clusterctl(
        "run", str(farm.inventory(tmp_path)), "--limit", "node04", "--", "true", env=farm.env
    )
    assert done.returncode == 5 and "node04: refused" in done.stderr


def test_sudo_and_the_words_of_the_program(small_farm, run_clusterctl, tmp_path):
    inventory = str(small_farm.inventory(tmp_path))
    done = run_clusterctl(
        "run", inventory, "--sudo", "--limit", "node01", "--", "printf", "%s.", "-v", "a b", "--json", "$HOME",
        env=small_farm.env,
    )  # fmt: skip
    assert done.stdout == "--- node01\n-v.a b.--json.$HOME.\n"


def test_ctrl_c_reports_what_ended_and_what_is_awaited(small_farm, clusterctl, tmp_path):
    text = on(small_farm.nodes[3].address, "exec sleep 300.4") + "echo here"
    command = [clusterctl, "run", small_farm.inventory(tmp_path), "--stream", "--timeout", "60", "--", text]
    environment = {**os.environ, **small_farm.env}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    assert process.stdout is not None
    for _ in range(3):  # the fourth node writes nothing
        assert process.stdout.readline().endswith(": here\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"waiting for node(04|\[.*04\])\n", err)
    assert re.search(r"The command was ended on node(04|\[.*04\] \(\d\))\.", err)
    sleeping = subprocess.run(("pgrep", "-f", "sleep 300.4"), capture_output=True, timeout=30, check=False)
    assert sleeping.stdout == b""
