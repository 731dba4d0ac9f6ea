"""Inventory values never reach a shell unquoted: shown in real shells, with a canary that any injection creates.

Every text field of the model (found by introspection) is given every hostile text. Either the file is refused
with a clear error, or each command line that comes of it is split by dash, bash and busybox into exactly its
words, and the ssh_config is read by the real ssh as what the inventory says and nothing more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hostile_inventories as hostile
import pytest

from clusterctl.artifacts import hostfile, ranks, shell, ssh_config
from clusterctl.artifacts.docker_run import STYLES, docker_run_argv
from clusterctl.errors import ArtifactError, InventoryError
from clusterctl.inventory import load
from clusterctl.inventory.imports.found import Source
from clusterctl.inventory.imports.hostfile import read as read_hostfile
from clusterctl.inventory.model import Inventory, Node
from clusterctl.launch import plan
from clusterctl.launch.launchers.hydra import Hydra
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.launchers.srun import Srun
from clusterctl.launch.launchers.torchrun import Torchrun
from clusterctl.launch.readiness import assumed

SHELLS = (("dash",), ("bash",), ("bash", "--posix"), ("busybox", "sh"))
FIELDS = hostile.fields()
SSH = shutil.which("ssh")


@dataclass
class Produced:
    """Everything that came of the accepted inventories, each once."""

    lines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    configs: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    hostfiles: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    accepted: dict[str, list[str]] = field(default_factory=dict)
    folder: Path = Path()


def lines_of(inventory: Inventory) -> Iterator[tuple[str, ...]]:
    """Every command line that ``render`` and the launchers make of an inventory."""
    for node in inventory.nodes:
        for style in STYLES:
            yield docker_run_argv(node.container, style=style)
    try:
        nodes = inventory.nodes[:2]
        placement = ranks.place(nodes)
        program = (ranks.agreed(nodes, "all_reduce_perf") or "x", ranks.agreed(nodes, "python") or "python3")
        for launcher, mpi in (
            *((OpenMpi(major), ("openmpi", major)) for major in (4, 5)),
            (Hydra(), ("mpich", 4)), (Torchrun(), ("openmpi", 4)), (Srun(), ("openmpi", 4)),
        ):  # fmt: skip
            yield plan.launch(
                [assumed(node, mpi=mpi) for node in nodes], launcher=launcher, library="nccl", np=placement.np,
                map_by="slot", program=program,
            ).argv  # fmt: skip
    except ArtifactError as error:
        assert error.message


def one(node: Node) -> Inventory:
    return Inventory(nodes=(node,))


@pytest.fixture(scope="module")
def produced(tmp_path_factory: pytest.TempPathFactory) -> Produced:
    """Load every field with every text; keep what is made of those that are accepted."""
    found = Produced(folder=tmp_path_factory.mktemp("hostile"))
    for place in FIELDS:
        for text in hostile.texts_for(place):
            content = hostile.with_text(place, text, found.folder)
            try:
                inventory = load.from_text(content, "inventory.yaml", found.folder)
            except InventoryError as error:
                assert error.message.startswith("inventory.yaml"), error.message
                kinds = {unicodedata.category(character) for character in error.message.replace("\n", "")}
                assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}, (str(place), text)
                continue
            found.accepted.setdefault(str(place), []).append(text)
            for subject in (inventory, *map(one, inventory.nodes)):
                for argv in lines_of(subject):
                    found.lines[shell.line(argv)] = argv
            try:
                found.configs[ssh_config.render(inventory.nodes)] = inventory.nodes
            except ArtifactError as error:
                assert error.hint
            hosts = tuple((node.name, node.gpus or 1) for node in inventory.nodes)
            found.hostfiles[hostfile.render(hosts)] = hosts
    return found


def test_the_fields_are_those_of_the_model() -> None:
    """The introspection finds what is known to be there, and the texts reach deep."""
    names = {str(place) for place in FIELDS}
    assert {
        "nodes.0.name",
        "nodes.0.address",
        "defaults.user",
        "groups.KEY (key)",
        "groups.g1.nodes",
    } <= names
    assert {"defaults.container.volumes.0", "defaults.env.X1", "nodes.0.env.KEY (key)"} <= names
    assert {"defaults.requirements.acs.gpu_devices.0", "groups.g1.requirements.cpu_governor"} <= names
    assert len(FIELDS) > 150


def test_some_hostile_texts_are_values_all_the_same(produced: Produced) -> None:
    """The other tests would prove nothing if everything were refused."""
    assert f"$(touch {hostile.CANARY})" in produced.accepted["defaults.container.env.X1"]
    assert len(produced.lines) > 300
    assert len(produced.configs) > 30


@pytest.mark.parametrize("argv", SHELLS, ids=" ".join)
def test_shells_split_every_line_into_exactly_its_words(
    argv: tuple[str, ...], produced: Produced, tmp_path: Path
) -> None:
    assert shutil.which(argv[0]), f"{argv[0]} is missing: tests/prerequisites.sh installs it"
    # A function takes each line's words in: thousands of lines in one shell, and none of them starts a program.
    script = ["say() { printf '%s\\000' \"$@\" >&3; printf '\\001\\000' >&3; }"]
    script += [f"say {line}" for line in produced.lines]
    (tmp_path / "here").mkdir()
    out, text = tmp_path / "out", tmp_path / "script"
    text.write_text("\n".join(script) + "\n")
    command = 'exec 3>"$1"; shift; exec "$@"'
    done = subprocess.run(
        ("sh", "-c", command, "sh", str(out), *argv, str(text)),
        cwd=tmp_path / "here",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr[:400]
    read = [chunk.split(b"\0")[:-1] for chunk in out.read_bytes().split(b"\1\0")[:-1]]
    assert len(read) == len(produced.lines)
    for words, (line, wanted) in zip(read, produced.lines.items(), strict=True):
        assert words == [word.encode() for word in wanted], line
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("argv", SHELLS, ids=" ".join)
def test_the_first_word_is_a_program_and_nothing_else(
    argv: tuple[str, ...], produced: Produced, tmp_path: Path
) -> None:
    """A path such as ``A=b`` or ``if`` would be an assignment or a keyword at the start of a line."""
    programs = sorted({wanted[0] for wanted in produced.lines.values()})
    assert len(programs) > 5
    script = []
    for number, program in enumerate(programs):
        file = tmp_path / "bin" / program
        if tmp_path / "bin" in file.parents and len(program) < 200:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'#!/bin/sh\nprintf "{number} %s\\n" "$#" >>"$OUT"\n')
            file.chmod(0o755)
        script.append(f"{shell.line((program, 'one', 'two words'))} 2>/dev/null")
    text = tmp_path / "script"
    text.write_text("\n".join(script) + "\n")
    out = tmp_path / "out"
    subprocess.run(
        (*argv, str(text)),
        cwd=tmp_path / "bin",
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": "/nonexistent", "OUT": str(out)},
        timeout=60,
        check=False,
        capture_output=True,
    )
    # busybox has programs of these names in itself, and prefers them.
    own = {"env", "time"} if argv[0] == "busybox" else set()
    here = {n for n, program in enumerate(programs) if not program.startswith("/") and program not in own}
    ran = {int(line.split()[0]) for line in out.read_text().splitlines() if line.endswith(" 2")}
    assert {programs[n] for n in here - ran} == set()
    assert not list(tmp_path.rglob(hostile.CANARY))


# The keys of `ssh -G` that an inventory decides; every other must read as without the inventory.
DECIDED = (
    *(
        "host",
        "hostname",
        "port",
        "user",
        "identityfile",
        "userknownhostsfile",
        "proxyjump",
        "identitiesonly",
    ),
    "updatehostkeys",  # ssh turns it off by itself where UserKnownHostsFile is another
)


def asked(config: Path, name: str, cwd: Path) -> dict[str, list[str]]:
    assert SSH, "ssh is missing: tests/prerequisites.sh installs it"
    done = subprocess.run(
        (SSH, "-G", "-F", str(config), "--", name), cwd=cwd, capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 0, (done.stderr, config.read_text())
    options: dict[str, list[str]] = {}
    for line in done.stdout.decode().splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key, []).append(value)
    return options


def test_ssh_reads_what_the_inventory_says_and_nothing_more(produced: Produced, tmp_path: Path) -> None:
    cwd = tmp_path / "here"
    cwd.mkdir()
    config = tmp_path / "config"
    config.write_text("BatchMode yes\nStrictHostKeyChecking yes\n")
    bare = {key: value for key, value in asked(config, "n1", cwd).items() if key not in DECIDED}
    seen: set[tuple[str, str | None, str | None, str | None, str | None]] = set()
    for text, nodes in produced.configs.items():
        config.write_text(text)
        for node in nodes:
            what = (node.address, node.user, node.identity_file, node.known_hosts, node.proxy_jump)
            if what in seen and node.name == "n2":
                continue
            seen.add(what)
            options = asked(config, node.name, cwd)
            others = {key: value for key, value in options.items() if key not in DECIDED}
            assert others == bare, text
            assert options["hostname"] == [node.address.lower()] or options["hostname"] == [node.address], (
                text
            )
            assert options["port"] == [str(node.port or 22)]
            if node.user is not None:
                assert options["user"] == [node.user], text
            if node.proxy_jump is not None:
                assert ",".join(options["proxyjump"]) == node.proxy_jump, text
            for value, key in (
                (node.identity_file, "identityfile"),
                (node.known_hosts, "userknownhostsfile"),
            ):
                if value is not None:
                    assert len(options[key]) == 1, text
                    # Some of ssh's versions show these with the tokens (%%) still in them.
                    assert options[key][0].strip('"') in (value, value.replace("%", "%%")), text
    assert list(cwd.iterdir()) == []


def test_a_hostfile_has_these_hosts_and_no_other(produced: Produced) -> None:
    for text, hosts in produced.hostfiles.items():
        read = read_hostfile(Source("hostfile", text))
        assert tuple((node.name, node.settings["slots"]) for node in read.nodes) == hosts
        assert len(text.splitlines()) == len(hosts)
