"""The line of ``render --bench`` is the line of ``bench --dry-run`` is the argv that ``bench`` starts.

Each case is one inventory, the launcher's command of ``render``, and options. ``bench`` runs to its end: the controller
sends the real start script over a transport, a real shell on the "node" runs it, and a stand-in for mpirun, mpiexec,
srun or python records its argv. Only what the nodes answer is given: their host names, users, versions and ports differ
from those in the inventory where they must not matter.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clusterctl.benchmarks.collective import sibling
from clusterctl.cli.bench import run as bench_run
from clusterctl.cli.main import main
from clusterctl.inventory.model import Node
from clusterctl.launch import identity
from clusterctl.launch.base import TOKEN_VARIABLE
from clusterctl.launch.identity import LaunchIdentity
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.run import Runner
from clusterctl.launch.viewer import Viewer
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Completed
from clusterctl.transport.local import LocalTransport

TWO = 'nodes: [{name: "gpu[1-2]", address: "10.0.0.[1-2]"}]'
RAILS = 'socket_ifname: "bond0,bond1"'
PERF = "all_reduce_perf: /opt/nccl-tests/all_reduce_perf"
VERSIONS = {
    "mpirun": "mpirun (Open MPI) 4.1.4",
    "mpirun5": "mpirun (Open MPI) 5.0.11",
    "mpiexec": "HYDRA build details: Version: 4.3.2",
    "torchrun": "mpirun (Open MPI) 4.1.4",
    "srun": "mpirun (Open MPI) 4.1.4",
    "local": "",
}
LAUNCHERS = {
    "mpirun": "openmpi",
    "mpirun5": "openmpi",
    "mpiexec": "mpich",
    "torchrun": "torchrun",
    "srun": "srun",
    "local": "local",
}
PROGRAMS = {**dict.fromkeys(("mpirun", "mpirun5"), "mpirun"), "mpiexec": "mpiexec", "srun": "srun"}


@dataclass(frozen=True)
class Case:
    """One inventory (without version and launcher paths), and the options that both commands get."""

    command: str
    defaults: str
    nodes: str = TWO
    options: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    """Words that the command must hold, so that equal but empty lines do not pass."""
    more: str = ""


CASES = {
    "free-variable-beats-interface": Case(
        "mpirun",
        f"gpus: 2, {RAILS}, {PERF}, env: {{NCCL_SOCKET_IFNAME: eth9}}",
        has=("NCCL_SOCKET_IFNAME=eth9", "btl_tcp_if_include", "bond0,bond1"),
    ),
    "interfaces": Case(
        "mpirun", f"gpus: 2, {RAILS}, {PERF}", has=("NCCL_SOCKET_IFNAME=bond0,bond1", "bond0,bond1")
    ),
    "exact-interface": Case(
        "mpirun", f'gpus: 2, socket_ifname: "=eth0", {PERF}', has=("NCCL_SOCKET_IFNAME==eth0", "eth0")
    ),
    "rdma": Case(
        "mpirun", f'gpus: 8, rdma_devices: "=mlx5_0,mlx5_1", {PERF}', has=("NCCL_IB_HCA==mlx5_0,mlx5_1",)
    ),
    "rdma-by-free-variable": Case(
        "mpirun",
        f"gpus: 8, rdma_devices: mlx5_0, env: {{NCCL_IB_HCA: mlx5_7}}, {PERF}",
        has=("NCCL_IB_HCA=mlx5_7",),
    ),
    "free-variables-beat-chosen-ones": Case(
        "mpirun",
        f"gpus: 2, {PERF}, env: {{NCCL_DEBUG: WARN, OMP_NUM_THREADS: 7, MASTER_PORT: 23456}}",
        has=("NCCL_DEBUG=WARN", "OMP_NUM_THREADS=7", "MASTER_PORT=23456"),
    ),
    "secret": Case(
        "mpirun", f"gpus: 2, {PERF}, env: {{HF_TOKEN: hunter2}}", has=("HF_TOKEN", "CCORE_JOB_SECRET")
    ),
    "spaces": Case("mpirun", f'gpus: 2, {PERF}, env: {{LABEL: "a b\'c"}}', has=("LABEL=a b'c",)),
    "one-node": Case("mpirun", f"gpus: 2, {PERF}", "nodes: [{name: gpu1}]", has=("MASTER_ADDR=127.0.0.1",)),
    "fewer-ranks": Case("mpirun", f"gpus: 8, {PERF}", options=("-np", "9"), has=("9",)),
    "gloo": Case(
        "mpirun",
        'slots: 2, socket_ifname: "=eth0"',
        options=("--library", "gloo"),
        has=("GLOO_SOCKET_IFNAME=eth0",),
    ),
    "ccore": Case(
        "mpirun",
        f"slots: 2, {RAILS}, {PERF}",
        options=("--library", "ccore"),
        has=("CCORE_SOCKET_IFNAME=bond0,bond1",),
    ),
    "another-collective": Case(
        "mpirun",
        f"gpus: 2, {PERF}",
        options=("--collective", "alltoall"),
        has=("/opt/nccl-tests/alltoall_perf",),
    ),
    "training": Case(
        "mpirun",
        "gpus: 1, python: /opt/venv/bin/python",
        options=("--model", "resnet50", "--batch-size", "8"),
    ),
    "groups": Case(
        "mpirun",
        f"gpus: 2, {PERF}",
        more='groups: {all: {nodes: "gpu[1-2]", socket_ifname: "eth1,eth2", env: {NCCL_ALGO: Ring}}}',
        has=("NCCL_ALGO=Ring", "eth1,eth2"),
    ),
    "containers": Case(
        "mpirun",
        f"gpus: 2, user: root, port: 2222, {PERF}, container: {{image: 'train:1', env: {{INSIDE: 1}}}}",
        has=("4",),
    ),
    "uneven": Case(
        "mpirun",
        PERF,
        "nodes: [{name: a, slots: 1}, {name: b, slots: 3}]",
        options=("--library", "nccl"),
        has=("4",),
    ),
    "open-mpi-5": Case(
        "mpirun5",
        f"gpus: 2, {RAILS}, {PERF}, env: {{NCCL_SOCKET_IFNAME: eth9}}",
        has=("prte_if_include", "NCCL_SOCKET_IFNAME=eth9"),
    ),
    "open-mpi-5-one-node": Case("mpirun5", f"gpus: 2, {PERF}", "nodes: [{name: gpu1}]", has=("--output",)),
    "mpich": Case(
        "mpiexec", f"gpus: 2, {RAILS}, {PERF}, env: {{NCCL_SOCKET_IFNAME: eth9}}", has=("eth9", "-localhost")
    ),
    "mpich-one-node": Case("mpiexec", f"gpus: 2, {PERF}", "nodes: [{name: gpu1}]", has=("-prepend-pattern",)),
    "mpich-cores": Case(
        "mpiexec", f"slots: 3, {PERF}", options=("-np", "4", "--library", "ccore"), has=("4",)
    ),
    "srun": Case(
        "srun", f"gpus: 2, {RAILS}, {PERF}, env: {{NCCL_ALGO: Ring}}", has=("NCCL_SOCKET_IFNAME=bond0,bond1",)
    ),
    "srun-uneven": Case(
        "srun",
        PERF,
        "nodes: [{name: a, slots: 1}, {name: b, slots: 3}]",
        options=("--library", "nccl"),
        has=("arbitrary",),
    ),
    "torchrun": Case("torchrun", f"gpus: 2, {RAILS}, {PERF}, env: {{NCCL_SOCKET_IFNAME: eth9}}"),
    "torchrun-training": Case("torchrun", "gpus: 2", options=("--model", "resnet50", "-np", "4")),
    "local": Case(
        "local",
        f"slots: 2, {PERF}",
        "nodes: [{name: here, address: localhost, connection: local}]",
        ("--library", "ccore"),
        has=("-np", "2"),
    ),
}


class Recording(LocalTransport):
    """A node of its own whose commands run here; it keeps what is sent to be run."""

    sent: list[bytes]
    files: dict[str, str | None]

    def put(self, data: bytes, path: str, **more: Any) -> None:
        self.files[path] = None if path.endswith((".py", ".sh")) else data.decode()
        super().put(data, path, **more)

    def run(self, argv: tuple[str, ...], *, stdin: bytes = b"", **more: Any) -> Completed:
        self.sent.append(stdin)
        return super().run(argv, stdin=stdin, **more)


@dataclass
class Nodes:
    """The stand-ins for all nodes of a case."""

    folder: Path
    command: str
    ids: LaunchIdentity
    sent: list[bytes]
    files: dict[str, str | None]

    def program(self, name: str) -> str:
        """A stand-in that records its argv and succeeds."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nfor word in "$0" "$@"; do printf \'%s\\0\' "$word"; done >{self.folder}/started\n'
        )
        path.chmod(0o755)
        return str(path)

    def started(self) -> list[str]:
        """The argv of the program that the shell on the launching node started."""
        return (self.folder / "started").read_text().split("\0")[:-1]

    def answer(self, node: Node, program: str) -> Readiness:
        """What a node answers: as the inventory says, and otherwise unlike anything that the inventory names."""
        slots = node.slots or node.gpus or 0
        return Readiness(
            node=node, host=f"ip-{node.name}", uid=1000, cores=slots, gpus=node.gpus or 0,
            interface=node.interfaces.first if node.interfaces else None, interface_address=None,
            interfaces="lo eth0", ssh_accepted_on=None, ssh_port=node.port, mpirun=node.mpirun,
            mpirun_version=VERSIONS[self.command], python=node.python, python_version="3.11.9", torch="2.9.1",
            perf=sibling(node.all_reduce_perf or "", program) or None,
            core_perf=f"/usr/lib/core/{program}", ports=frozenset({22, 111, 20005}),
            host_keys=("ssh-ed25519 AAAA",), identity=None, known_hosts=None, cpu_model="some CPU",
            nccl=("2.28.9",), srun="/usr/bin/srun", slurm_nodes=("a", "b", "gpu1", "gpu2"),
        )  # fmt: skip

    def runner(self, session: Any, run: RunDir | None = None, viewer: Viewer | None = None) -> Runner:
        nodes, connect = self, self.connect

        class Here(Runner):
            def identity(self) -> LaunchIdentity:
                return nodes.ids

            def prepare(
                self, staged: Any, perf_program: str = "all_reduce_perf", library: str | None = None
            ) -> Any:
                Path(self.directory).mkdir(mode=0o700, exist_ok=True)
                # So that the runner removes the directory as it does after any other run.
                self._touched = {node.name: node for node in self._nodes}
                return tuple(nodes.answer(node, perf_program) for node in session.inventory.nodes), ()

        made = Here(session.inventory.nodes, connect, viewer=viewer)
        made.token, made.mark, made.directory = self.ids.token, self.ids.mark, self.ids.directory
        return made

    def connect(self, node: Node) -> Recording:
        transport = Recording(node)
        transport.sent, transport.files = self.sent, self.files
        return transport


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(command: str) -> Nodes:
        ids = LaunchIdentity(secrets.token_hex(8), secrets.token_hex(8), "s3cr3t", 20000)
        found = Nodes(tmp_path, command, ids, [], {})
        for name in ("mpirun", "mpiexec", "srun", "python"):
            found.program(name)
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text("#!/bin/sh\necho unlimited\n")
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path / "runs"))
        monkeypatch.setattr(bench_run, "runner_of", found.runner)
        # What a printed plan has for the values that each run chooses; here those of the run.
        monkeypatch.setattr(identity, "SHOWN", ids)
        return found

    return make


def documents(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
    launches: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["launches"]
    return launches


def sent_words(sent: list[bytes], token: str) -> list[list[str]]:
    """The argv of each start script that a transport carried."""
    lines = [
        text
        for text in sent
        if f"{TOKEN_VARIABLE}={token}".encode() in text and b"timeout --foreground" in text
    ]
    found = []
    for text in lines:
        words = shlex.split(text.decode().partition("\n$clock ")[2].partition(" </dev/null 2>&1\nstatus=")[0])
        found.append(words[words.index(f"{TOKEN_VARIABLE}={token}") + 1 :])
    return found


@pytest.mark.parametrize("name", CASES)
def test_render_dry_run_and_launch_are_one_line(
    name: str, nodes: Callable[[str], Nodes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    here = nodes(case.command)
    paths = f"mpirun: {tmp_path}/bin/{PROGRAMS.get(case.command, 'mpirun')}"
    if case.command in ("torchrun", "local"):
        paths = f"python: {tmp_path}/bin/python"
    elif "python:" not in case.defaults:
        paths += ", python: /usr/bin/python3"
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(f"version: 1\ndefaults: {{{paths}, {case.defaults}}}\n{case.more}\n{case.nodes}\n")
    common = ("-i", str(inventory), *case.options)
    launcher = ("--launcher", LAUNCHERS[case.command])

    planned = documents(capsys, "bench", *common, *launcher, "--dry-run")
    if case.command != "local":
        version = ("--open-mpi", "5") if case.command == "mpirun5" else ()
        rendered = documents(capsys, "render", case.command.removesuffix("5"), *common, *version, "--bench")
        assert [launch["line"] for launch in rendered] == [launch["line"] for launch in planned]
    main(["bench", *common, *launcher, "--json"])
    capsys.readouterr()

    # The stand-in measures nothing, so a training ends with its first point.
    (words,) = sent_words(here.sent, here.ids.token)
    assert words == planned[0]["argv"] == shlex.split(planned[0]["line"])
    assert set(case.has) <= {part for word in words for part in (word, *word.split(","))} | {
        f"{name}={value}" for name, value in planned[0]["env"].items()
    }
    program = here.started()
    at = next(index for index, word in enumerate(words) if Path(word).name == Path(program[0]).name)
    assert [Path(words[at]).name, *words[at + 1 :]] == [Path(program[0]).name, *program[1:]]
    assert planned[0]["files"] and planned[0]["files"].items() <= here.files.items()
    (artifacts,) = (tmp_path / "runs").glob("*/artifacts.json")
    assert not Path(here.ids.directory).exists()
    assert json.loads(artifacts.read_text())["commands"] == [
        {"np": planned[0]["np"], "line": planned[0]["line"]}
    ]


def test_there_are_enough_cases_for_every_launcher() -> None:
    assert len(CASES) >= 20
    assert {case.command for case in CASES.values()} == set(LAUNCHERS)
