"""Every parser of text that nodes, ranks, other programs and other tools wrote: its seeds and the errors it documents.

``PARSERS`` is the one table. ``unlisted()`` finds the functions of clusterctl that look like a parser and are neither
in it nor in ``NOT_FOREIGN``.
"""

from __future__ import annotations

import ast
import io
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import facts_recorded as recorded

import clusterctl
from clusterctl.acceptance.outputs import dcgm, fio, hpl, iperf3, nccl_tests, nvbandwidth, perftest, stress_ng
from clusterctl.acceptance.outputs import records as device_records
from clusterctl.apply import present, records
from clusterctl.benchmarks import locate, neighbours, perf_output, training
from clusterctl.benchmarks.live_output import LiveOutput
from clusterctl.benchmarks.perf_output import without_log
from clusterctl.cli import draining
from clusterctl.containers import found as container_found
from clusterctl.errors import ClusterctlError
from clusterctl.facts import document, gather, probe
from clusterctl.facts.base import Section, Sections
from clusterctl.facts.catalog import SUBJECTS
from clusterctl.facts.drift import drift
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.subjects.clock import ClockExchange
from clusterctl.images import on_node, prove
from clusterctl.images.distribution import relay
from clusterctl.inventory import interfaces, yaml_source
from clusterctl.inventory.imports import kinds
from clusterctl.inventory.imports.found import Source
from clusterctl.inventory.model import Node
from clusterctl.launch import leftovers, nccl_dumps, notices, pairs_apart, processes, readiness
from clusterctl.launch.attribution import LeadingTags, MarkedTags, XmlElements
from clusterctl.launch.launchers import mpi_version
from clusterctl.report.known_errors import flight_recorder, line_readings, origin, ras, topic_files, when
from clusterctl.report.known_errors.scan import Scan
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.judge import judge_node
from clusterctl.results import damage
from clusterctl.text import foreign
from clusterctl.text.openssh import reader as ssh_reader
from clusterctl.text.secret.scrub import scrubbed_json
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import TransportError
from clusterctl.trust import paths, usage
from clusterctl.trust.nccl_log import LogReader
from clusterctl.trust.nccl_transport import parse as parse_transport
from clusterctl.trust.topology import groups, nccl_dump

TESTS = Path(__file__).resolve().parents[1]
NODE = Node(
    name="n",
    address="n",
    requirements={"ssh_mesh": {"require": True}, "shared_dir": {"path": "/s", "server": "n"}},
)
NONCE = "0f" * 16


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser as it is called: ``refuses`` are the errors of its docstring; it raises nothing else."""

    name: str
    run: Callable[[str], object]
    seeds: tuple[str, ...]
    refuses: tuple[type[Exception], ...] = ()


def _files(*patterns: str) -> tuple[str, ...]:
    paths = sorted(path for pattern in patterns for path in TESTS.glob(pattern) if path.is_file())
    assert paths, patterns
    return tuple(path.read_text(encoding="utf-8", errors="replace")[:20_000] for path in paths)


def _cases(subject: str) -> tuple[Sections, ...]:
    return tuple(recorded.load(path) for path in sorted((recorded.CASES / subject).glob("*.txt")))


# Sections as one text, whose marks no mutation makes by chance.
_BEGIN, _NAMED = "\x1e", "\x1f"


def _joined(sections: Sections) -> str:
    return "".join(f"{_BEGIN}{name}{_NAMED}{section.text}" for name, section in sections.items())


def _sections(text: str) -> Sections:
    pieces = (piece.partition(_NAMED) for piece in text.split(_BEGIN)[1:])
    return Sections({name: Section(name, body) for name, _, body in pieces})


def _ssh_config(text: str) -> None:
    """Evaluate an ssh_config for a host, on a machine where every command succeeds and every name is canonical."""

    class Here:
        local_user = "root"

        def succeeds(self, command: str, host: str, found: ssh_reader.Options) -> bool:
            return True

        def canonical(self, host: str, found: ssh_reader.Options) -> str | None:
            return f"{host}.example"

    config = ssh_reader.Config()
    config.add("config", text, lambda line, within, depth: [("included", text)] if depth < 2 else [])
    config.lookup("gpu01", None, Here())


def _whole_nodes() -> tuple[str, ...]:
    """Return nodes made of one case of each subject."""
    cases = {subject: _cases(subject) for subject in recorded.SUBJECTS}
    nodes = []
    for index in range(4):
        together = Sections()
        for found in cases.values():
            together.update(found[index % len(found)])
        nodes.append(_joined(together))
    return tuple(nodes)


def _everything_of_a_node(text: str) -> None:
    """Do what a check does with one node's answer: its facts, their document, the verdicts, and drift."""
    facts = gather.facts_from(
        "n",
        _sections(text),
        RootAccess(0, "root"),
        gathered_at=1.0,
        duration_s=1.0,
        exchange=ClockExchange(1.0, 2.0, 3.0),
        subjects=frozenset(SUBJECTS),
    )
    assert document.from_document(document.to_document(facts)) == facts
    fleet = Fleet((NODE,), {"n": facts})
    judge_node(facts, NODE, fleet=fleet)
    drift({"n": facts, "m": facts})


def _understood(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Call a parser as its callers do, which make the failure of the node of whatever it does not understand."""

    def run(text: str) -> object:
        with understanding("n", "what it has"):
            return parse(text)

    return run


def _facts(text: str, subjects: frozenset[str]) -> NodeFacts:
    return gather.facts_from(
        "n", _sections(text), RootAccess(0, "root"), gathered_at=1.0, duration_s=1.0, subjects=subjects
    )


def _ready(text: str) -> object:
    return readiness.of_facts(NODE, _facts(text, readiness.READS))


def _container(text: str) -> object:
    return container_found.of_facts(NODE, _facts(text, container_found.READS), None)


def _relay(text: str) -> object:
    return relay.of_facts(NODE, _facts(text, relay.READS), "t", "/var/lib/docker", "ssh-ed25519 AAAA")


def _image(text: str) -> object:
    return on_node.image_of(foreign.json_value(text)[0])


def _scanned(text: str) -> None:
    scan = Scan(topic_files.load())
    scan.read("log", io.BytesIO(text.encode("utf-8", "replace")))
    assert scan.findings is not None and scan.left_over is not None


def _nccl(text: str) -> None:
    reader = LogReader()
    reader.read_text(text, 0)
    reader.result()
    without_log(text)


def _attributed(text: str) -> None:
    for reader in (XmlElements(), LeadingTags(), MarkedTags("5eed")):
        for line in text.split("\n"):
            assert all(piece.rank is None or piece.rank >= 0 for piece in reader(line))


def _noticed(text: str) -> None:
    notices.rank_death(text)
    notices.daemon_node(text)
    notices.gave_up(text)
    notices.last_words(text)


def _imported(name: str, kind: kinds.Kind) -> Callable[[str], object]:
    def run(text: str) -> None:
        source = Source(name, text)
        kinds.table_problem(text)
        kinds.detect(source)
        kinds.read(source, kind)

    return run


_ACCEPTANCE: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("dcgm", dcgm.parse), ("fio", fio.parse), ("hpl", hpl.parse), ("iperf3", iperf3.parse),
    ("nccl_tests", nccl_tests.parse),
    ("nvbandwidth", nvbandwidth.parse), ("perftest", perftest.parse), ("records", device_records.parse),
    ("stress_ng", stress_ng.memory_rate), ("stress_ng", stress_ng.verified),
)  # fmt: skip
_VERSIONS = ("mpirun (Open MPI) 4.1.4", "HYDRA build details:\n  Version:  4.2.1\n")
_IMPORTS = "unit/inventory/imports"
_USAGE = (
    '# Usage of rank 0: {"reported_by":"ccore","read":{"CCORE_2D":"0"},"ignored":{"CCORE_CMA":"not used"},'
    '"transports":["shm"],"calls":[{"operation":"all_reduce","bytes":8,"algorithm":"ring","calls":3}],"cpu_quota":{"elapsed_s":2.5,"unread":[],'
    '"groups":[{"group":"/a","quota_us":10000,"period_us":100000,"before":[0,0,0],"after":[25,20,1800000]}]}}\n'
)
_PATHS = (
    "# Path of rank 0: kernel: 2 ranks on one GPU\n"
    '{"schema":"collective_core.nccl/1","pid":7,"communicators":[{"ranks":2,"rank":0,"path":"kernel","why":null}],'
    '"functions":{"ncclAllReduce":{"taken":3,"taken_bytes":24,"passed":1,"passed_bytes":8}}}\n'
)
_RECORD = (
    'clusterctl-record {"kind": "start", "rank": 0, "host": "a", "pid": 7, "device": "cuda:0 H200"}\n'
    'clusterctl-record {"kind": "rank", "rank": 0, "host": "a", "pid": 7, "device": "cuda:0 H200", '
    '"samples_per_s_mean": 2.5, "samples_per_s_spread": 0.1, "loss_first": 3, "loss_last": 2, "steps": 8, '
    '"parameters_digest": "ab", "proof": {"backend": "nccl", "version": "2.27", "libraries": ["a"]}}\n'
    'clusterctl-record {"kind": "failure", "rank": 0, "host": "a", "reason": "nan-loss", "loss": "nan"}\n'
)
_INSPECT = '[{"Id": "sha256:ab", "RootFS": {"Layers": ["a"]}, "Size": 12, "Config": {"Env": ["A=b"]}, "Created": "x"}]'
_NOTICES = (
    "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).\n"
    "srun: error: b: tasks 1-3: Exited with exit code 2\nsrun: error: b: task 1: Killed\n"
    "Process name: [[30393,1],1]\n  Exit code:    3\nlocal_spawn: rank 1 (pid 12) on b exited with status 137\n"
    "Remote daemon: [[1,0],1] on node b\nNode failure on b\n"
)
_STREAM = (
    '<stdout rank="1">half &lt;a&gt; &#195;&#169;</stdout><stderr>mpirun noticed&#010;</stderr>\n'
    "[1,0]<stdout>: row\n[5eed,0]<stdout>:row[5eed,1]<stderr>:half\n"
)
_SCONTROL = (
    "NodeName=gpu01 Arch=x86_64 State=DOWN*+DRAIN Partitions=all "
    "Reason=clusterctl: disk: full (20261129T010203Z-check-1a2b) [root@2026-11-29T01:09:00]\n"
)
HERE = leftovers.this_controller()
_LEFT = f"0123456789abcdef old {HERE.lease}"
_LOCATE = "\n".join(
    f"clusterctl-record {record}"
    for record in (
        '{"kind": "locate-start", "rank": RANK, "device": "cpu"}',
        *['{"kind": "locate-window", "rank": RANK, "rates": {"gemm": 5e9}}'] * 3,
        *['{"kind": "locate-round", "rank": RANK, "met": [[PEER, 1.41544]]}'] * 8,
        '{"kind": "locate-repeated", "round": 1, "rank": RANK, "met": [[PEER, 1.2]]}',
        '{"kind": "locate-end", "rank": RANK, "quota": {"elapsed_s": 2.5, "groups": [], "unread": ["/a: x"]}}',
    )
)


def _located(text: str) -> object:
    """Parse the text as what both of two ranks wrote."""
    texts = {rank: text.replace("RANK", str(rank)).replace("PEER", str(1 - rank)) for rank in (0, 1)}
    return locate.parse(texts, ("gpu01", "gpu02"))


_NEIGHBOURS = "# Neighbours: 1048576 bytes\n# Neighbours of rank 0 on a: 12.5 GB/s with 1, 11 GB/s with 2\n"
_PROBE = f"hello\n\n{NONCE} begin root -\n0 root\n\n{NONCE} end root 0\n\n{NONCE} begin memory 100\n/proc/meminfo:MemTotal: 5 kB\n\n{NONCE} end memory 0\n\n{NONCE} done 12.5\n"  # noqa: E501
_SSH = "Host gpu*\n  Port = 22\n\tUser root\nMatch host a\nProxyJump b\nInclude none\n"


def parsers() -> tuple[Parser, ...]:
    """Return the table."""
    of_facts = [
        Parser(
            f"facts/{subject}",
            lambda text, run=run: run(_sections(text)),
            tuple(map(_joined, _cases(subject))),
        )
        for subject, run in recorded.SUBJECTS.items()
    ]
    inventories = {
        "ansible": (kinds.Kind.ansible, _files(f"{_IMPORTS}/ansible_ini/*")),
        "hostfile": (kinds.Kind.hostfile, _files(f"{_IMPORTS}/*hostfile", f"{_IMPORTS}/machinefile")),
        "clustershell": (kinds.Kind.clustershell, _files(f"{_IMPORTS}/clustershell.cfg")),
        "hosts_file": (kinds.Kind.etc_hosts, _files(f"{_IMPORTS}/etc.hosts")),
        "slurm": (kinds.Kind.slurm, _files(f"{_IMPORTS}/s*.txt", f"{_IMPORTS}/slurm.conf")),
        "ssh_config": (kinds.Kind.ssh_config, (_SSH, *_files(f"{_IMPORTS}/ssh/*"))),
    }
    of_tools = [
        Parser(f"inventory.imports.{name}", _imported(name, kind), seeds, (ClusterctlError,))
        for name, (kind, seeds) in inventories.items()
    ]
    own = _files("../inventories/*.yaml")
    texts = _files(f"{_IMPORTS}/ansible_yaml/*", f"{_IMPORTS}/ansible_yaml.json")
    return (
        *of_facts,
        Parser("a node's whole check", _everything_of_a_node, _whole_nodes()),
        Parser("facts.probe.split", lambda text: probe.split(text, NONCE), (_PROBE,), (ClusterctlError,)),
        Parser("cli.draining", draining.parse, (_SCONTROL,)),
        Parser("secret.scrub", scrubbed_json, (_INSPECT, '{"password": "a", "b": [1]}')),
        Parser("foreign.json_value", foreign.json_value, (_INSPECT, '{"a": [1.5, NaN]}'), (foreign.NotUnderstood,)),
        Parser("foreign.whole", foreign.whole, ("12", "-7", "0012"), (foreign.NotUnderstood,)),
        Parser("foreign.decimal", foreign.decimal, ("12.5", "-7e3", ".5"), (foreign.NotUnderstood,)),
        Parser("benchmarks.perf_output", perf_output.parse, _files("unit/benchmarks/cases/*.txt")),
        Parser(
            "benchmarks.live_output",
            lambda text: LiveOutput().read(text + "\n"),
            (_RECORD, *_files("unit/benchmarks/cases/*.txt")),
        ),
        Parser("benchmarks.neighbours", lambda text: neighbours.parse(text.splitlines()).part(), (_NEIGHBOURS,)),
        Parser("benchmarks.locate", _located, (_LOCATE,)),
        *(
            Parser(f"acceptance.{case}.{run.__name__}", run, _files(f"unit/acceptance/cases/{case}/*.txt"),
                   (foreign.NotUnderstood,))
            for case, run in _ACCEPTANCE
        ),
        Parser("trust.paths", lambda text: (paths.of_table(text), paths.of_reports({0: text})), (_PATHS,)),
        Parser("trust.usage", usage.of_table, (_USAGE,)),
        Parser("benchmarks.training", lambda text: training.parse({0: text, 1: text}), (_RECORD,)),
        Parser("benchmarks.nccl_log", _nccl, _files("unit/trust/nccl_logs/*.log")),
        Parser("launch.nccl_dumps", nccl_dumps.collected, ("clusterctl-file nccl-topo.xml\n<system/>\n",)),
        Parser(
            "trust.topology",
            lambda text: groups.part({"n": nccl_dump.parse_topology(text, 0)}),
            _files("unit/trust/topology_cases/*-topo.xml"),
            (foreign.NotUnderstood,),
        ),
        Parser(
            "trust.topology.graphs",
            lambda text: nccl_dump.parse_graphs(text, "<system/>"),
            _files("unit/trust/topology_cases/*-graph.xml"),
            (foreign.NotUnderstood,),
        ),
        Parser("benchmarks.nccl_transport", parse_transport, ("NET/IB/0(3)/GDRDMA(PCI)/Shared", "P2P/CUMEM")),
        Parser("report.known_errors.scan", _scanned, _files("unit/report/logs/*/*")),
        Parser(
            "report.known_errors.flight_recorder",
            lambda text: flight_recorder.read(0, text.encode(errors="replace")),
            _files("unit/report/logs/flight_recorder/*.json"),
            (flight_recorder.DumpError,),
        ),
        Parser(
            "report.known_errors.ras",
            lambda text: ras.lines_of(text.encode(errors="replace")),
            _files("unit/report/logs/ras/*.json"),
        ),
        Parser(
            "report.known_errors.line_readings",
            lambda text: [line_readings.read(line) for line in text.splitlines()],
            _files("unit/report/logs/broken/*"),
        ),
        Parser("report.known_errors.when", when.stamp_of, _files("unit/report/logs/broken/*")),
        Parser("report.known_errors.origin", origin.origin_of, _files("unit/report/logs/broken/*")),
        Parser("launch.attribution", _attributed, (_STREAM,)),
        Parser("launch.leftovers", lambda text: leftovers.dead([text], HERE), (_LEFT,)),
        Parser("launch.notices", _noticed, (_NOTICES,)),
        Parser("launch.mpi_version", mpi_version.read, _VERSIONS),
        Parser("launch.processes", processes.parse_inspection, ("12\t0\tS\tpython\n13\t1\tT\tpython\n",)),
        Parser("launch.pairs_apart", pairs_apart.parse, ("0\t0\t\n1\t137\tRuntimeError: timeout\n",)),
        Parser("launch.readiness", _ready, _whole_nodes(), (ClusterctlError,)),
        Parser("containers.found", _understood(_container), _whole_nodes(), (ClusterctlError,)),
        Parser("images.relay", _understood(_relay), _whole_nodes(), (ClusterctlError,)),
        Parser("images.on_node", _understood(_image), (_INSPECT,), (TransportError,)),
        Parser(
            "images.prove",
            lambda text: prove.parse(text, name="a", container="c", image="i", library="l", expected_sha256=None),
            ("rank\t0\t12\t/lib/a.so\tab\nversion\t2.27\n",),
        ),
        Parser("results.damage", lambda text: damage.parsed(text, dict), ('{"a": [NaN]}',), (ValueError, TypeError)),
        Parser("apply.present", lambda text: present.parse(text, ("/a", "/b")), ("@absent\n@file 644 4 b25lCg==\n",)),
        Parser("apply.records", lambda text: records.parse(text, NONCE), (f"@{NONCE} 12 done c3RlcA==",)),
        *of_tools,
        Parser("inventory.imports.ansible_yaml", _imported("a.yml", kinds.Kind.ansible), texts, (ClusterctlError,)),
        Parser("inventory.yaml_source", lambda text: yaml_source.parse(text.encode(), "i"), own, (ClusterctlError,)),
        Parser("inventory.interfaces", interfaces.parse, ("ib", "=eth0,eth1", "^docker", "^=eth0")),
        Parser("openssh.reader", _ssh_config, (_SSH,)),
    )  # fmt: skip


_HOSTILE = (
    *(
        "9" * 400,
        "9" * 5000,
        "1e999",
        "-1e308",
        "nan",
        "inf",
        "Infinity",
        "-1",
        "0x" + "f" * 40,
        "²",
        "٣",
        "1_0",
        "1.2.3",
    ),
    *(
        "\x00",
        "\u2028",
        "\r",
        "\n",
        "\t",
        " " * 3000,
        ":" * 50,
        "/" * 50,
        "[" * 2000,
        '{"a":' * 1000,
        "]",
        "}",
        '"',
        "\\",
    ),
    *("a" * 5000, "\N{REPLACEMENT CHARACTER}", "%s", "--", "None", "[" + "1," * 500 + "1]"),
)


def mutated(chance: random.Random, seeds: tuple[str, ...]) -> str:
    """Return a seed with up to four pieces cut, doubled, moved, or replaced; or nothing but noise."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(200)).decode(errors="replace")
    text = chance.choice(seeds)
    for _ in range(chance.randrange(1, 5)):
        low = chance.randrange(len(text) + 1)
        high = min(len(text), low + chance.choice((0, 1, 3, 40)))
        kind = chance.random()
        if kind < 0.4:
            low, high = _number_near(text, low)
            piece = chance.choice(_HOSTILE)
        elif kind < 0.7:
            piece = chance.choice(_HOSTILE)
        elif kind < 0.8:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) + 1)
            piece = other[start : start + chance.choice((5, 80, 400))]
        elif kind < 0.9:
            piece = text[low:high] * 2
        else:
            piece = ""
        text = text[:low] + piece + text[high:]
    return text


def _number_near(text: str, at: int) -> tuple[int, int]:
    """Return where the next number begins and ends; an empty place where none follows."""
    while at < len(text) and not text[at].isdigit():
        at += 1
    end = at
    while end < len(text) and text[end].isdigit():
        end += 1
    return at, end


# What follows finds new parsers.

_NAMES = ("parse", "read", "split", "undump", "detect")
_FOREIGN_TYPES = ("str", "bytes", "Sequence[str]", "Iterable[str]", "Iterable[bytes]", "Sections", "Source")
NOT_FOREIGN = {
    "results.damage.read_as_stored": "a context manager; test_hostile_results.py tries what is read in it",
    "acceptance.rules.read_rule": "the thresholds of clusterctl or of this site",
    "apply.carry.read": "names of packages that the inventory asks for",
    "launch.slow_parts.parse": "calls benchmarks.locate.parse, which is in the table, on the output of ranks",
    "cli.bench.request.parse_size": "an option of the command line",
    "cli.bench.request.parse_points": "an option of the command line",
    "launch.variants.parse_variants": "an option of the command line",
    "images.push.split": "an option of the command line",
    "images.packages.parse": "an option of the command line",
    "images.base_image.parse": "what a container of this machine's engine said",
    "lab.apt_sources.parse_list": "the file of this machine",
    "lab.apt_sources.parse_deb822": "the file of this machine",
    "lab.python_mounts.parse": "the file of this machine",
    "workloads.collective_perf.parse_size": "an option of the command line",
    "requirements.judge.subjects_read": "names of requirements",
    "transport.ssh.target.split_hop": "an option of the inventory",
}
"""Functions that are named like a parser and read what the user of this machine wrote."""


def _functions() -> Iterator[str]:
    package = Path(clusterctl.__file__).parent
    for path in sorted(
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "templates"
    ):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if any(part in _NAMES for part in node.name.split("_")) and any(
                argument.annotation is not None and ast.unparse(argument.annotation) in _FOREIGN_TYPES
                for argument in node.args.args
            ):
                yield f"{module}.{node.name}"


def reached(run: Callable[[], Any]) -> set[str]:
    """Return the functions of clusterctl that are called while something runs, as ``module.name``."""
    package = str(Path(clusterctl.__file__).parent)
    found: set[str] = set()

    def note(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            path = Path(frame.f_code.co_filename).relative_to(package).with_suffix("")
            found.add(".".join((*path.parts, frame.f_code.co_name)))

    # What is remembered is not called again.
    modules = [module for name, module in sys.modules.items() if name.startswith("clusterctl.")]
    for forget in [
        getattr(value, "cache_clear", None) for module in modules for value in vars(module).values()
    ]:
        if callable(forget):
            forget()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


def unlisted(called: set[str]) -> list[str]:
    """Return the parsers that are in no table: neither called by one of ``PARSERS``, nor in ``NOT_FOREIGN``."""
    return [name for name in _functions() if name not in called and name not in NOT_FOREIGN]


PARSERS = parsers()
