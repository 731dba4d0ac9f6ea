"""collective_core over RDMA and over TCP, and perftest, interleaved between two guests that are joined by Soft-RoCE.

Per round: half a round trip of 8 bytes (`ib_write_lat`, and `sendrecv_perf`, in which both ranks send at once), and
1 MiB one way (`ib_write_bw`, and `broadcast_perf`). Printed are medians of the ratios within a round. Soft-RoCE is
software and guests without KVM are emulated, so no figure in seconds says anything about an RDMA NIC.

    clusterctl lab up --driver qemu --nodes 2
    python benchmarks/core_rdma.py [--lab .clusterctl-lab] [--rounds 5]
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from clusterctl import lab as labs
from clusterctl.benchmarks import perf_output
from clusterctl.lab import Lab
from collective_core import library_path, perf_binary

_FOLDER = "/opt/core-rdma"
_DEADLINE_S = 300
_DEVICE = "rxe0"
_COUNTER = f"cat /sys/class/infiniband/{_DEVICE}/ports/1/hw_counters/sent_pkts"
_LATENCY_GOAL, _BANDWIDTH_GOAL = 1.5, 0.95


@dataclass(frozen=True)
class Guests:
    """Two guests of a lab that is up, over one SSH connection each."""

    lab: Lab
    sockets: Path

    def start(self, place: int, line: str) -> subprocess.Popen[bytes]:
        """Start a command line on a guest."""
        program, *words = self.lab.ssh_argv(self.lab.nodes[place].name, line)
        shared = ("ControlMaster=auto", f"ControlPath={self.sockets / str(place)}", "ControlPersist=600")
        argv = (program, *(word for option in shared for word in ("-o", option)), *words)
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, place: int, line: str, given: bytes = b"") -> str:
        """Run a command line that must succeed on a guest; return its standard output."""
        with self.start(place, line) as process:
            output, _ = process.communicate(given, timeout=_DEADLINE_S)
        if process.returncode != 0:
            raise SystemExit(f"{self.lab.nodes[place].name}: exit {process.returncode} from: {line}")
        return output.decode(errors="replace")

    def both(self, lines: tuple[str, str], wait_s: float = 0) -> str:
        """Run a command line on each guest at once; return what the first prints."""
        first = self.start(0, lines[0])
        time.sleep(wait_s)
        second = self.start(1, lines[1])
        outputs = [process.communicate(timeout=_DEADLINE_S)[0] for process in (first, second)]
        if first.returncode or second.returncode:
            raise SystemExit(f"exit {first.returncode} and {second.returncode} from: {lines[0]}")
        return outputs[0].decode(errors="replace")


def perftest(guests: Guests, program: str, words: str) -> list[str]:
    """Return the columns of the one row that a program of perftest prints."""
    line = f"timeout 200 {program} -d {_DEVICE} -F {words}"
    server = f"{guests.lab.nodes[0].fabric_address}"
    output = guests.both((line, f"sleep 3; {line} {server}"))
    size = words.split()[words.split().index("-s") + 1]
    (row,) = [found for text in output.splitlines() if (found := text.split())[:1] == [size]]
    return row


def core(guests: Guests, net: str, program: str, words: str, port: int) -> perf_output.Row:
    """Return the one row that a perf program prints, after checking that it went over what was asked for."""

    def line(rank: int) -> str:
        return (
            f"RANK={rank} WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 CCORE_NET={net} CCORE_SOCKET_IFNAME=fabric0 "
            f"CCORE_ROOT_ADDR={guests.lab.nodes[0].fabric_address} CCORE_ROOT_PORT={port} CCORE_JOB_SECRET={port} "
            f"LD_LIBRARY_PATH={_FOLDER} timeout 200 {_FOLDER}/{program} {words}"
        )

    sweep = perf_output.parse(guests.both((line(0), line(1))))
    if not sweep.transports or sweep.transports[0] != f"0-1 {net}" or len(sweep.rows) != 1 or sweep.faults:
        raise SystemExit(f"{program} over {net}: {sweep.transports}, {sweep.faults}")
    return sweep.rows[0]


def install(guests: Guests) -> None:
    """Copy the library and two of its programs to both guests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        files = (library_path(), *map(perf_binary, ("sendrecv_perf", "broadcast_perf")))
        for path in files:
            archive.add(path, path.name)
    for place in (0, 1):
        guests.run(place, f"mkdir -p {_FOLDER} && tar -C {_FOLDER} --no-same-owner -xf -", buffer.getvalue())


def measure(guests: Guests, rounds: int) -> dict[str, list[float]]:
    """Return, by the name of the ratio, one ratio per round."""
    ratios: dict[str, list[float]] = {}
    port = 21000
    for number in range(rounds):
        wire_us = float(perftest(guests, "ib_write_lat", "-s 8 -n 300")[4])
        wire_mb = float(perftest(guests, "ib_write_bw", "-s 1048576 -n 20")[3])
        for net in ("rdma", "tcp"):
            small = core(guests, net, "sendrecv_perf", "-b 8 -e 8 -n 100 -w 10", port)
            large = core(guests, net, "broadcast_perf", "-b 1M -e 1M -n 10 -w 2", port + 1)
            port += 2
            ratios.setdefault(f"8 B over {net} / ib_write_lat", []).append(
                (small.out_of_place.time_us or 0) / wire_us
            )
            # perftest counts MiB, and the time of an operation here ends when its last byte has arrived.
            rate = large.size_bytes / 1048576 / ((large.out_of_place.time_us or 0) / 1e6)
            ratios.setdefault(f"1 MiB over {net} / ib_write_bw", []).append(rate / wire_mb)
        print(
            f"round {number + 1}: " + ", ".join(f"{name} {all_[-1]:.2f}" for name, all_ in ratios.items()),
            flush=True,
        )
    return ratios


def main() -> None:
    """Measure, and print the medians beside the goals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", type=Path, default=labs.DEFAULT_DIRECTORY)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="core-rdma-") as sockets:
        guests = Guests(labs.load(options.lab), Path(sockets))
        install(guests)
        before = int(guests.run(0, _COUNTER))
        ratios = measure(guests, options.rounds)
        print(f"packets of {_DEVICE} from the first guest: {int(guests.run(0, _COUNTER)) - before}")
        for place in (0, 1):
            guests.run(place, f"rm -rf {_FOLDER}")
    print(f"{'ratio':<36} {'median':>7} {'lowest':>7} {'highest':>7}  goal")
    for name, found in ratios.items():
        small = "ib_write_lat" in name
        goal = "" if "tcp" in name else f"<= {_LATENCY_GOAL}" if small else f">= {_BANDWIDTH_GOAL}"
        print(f"{name:<36} {statistics.median(found):7.2f} {min(found):7.2f} {max(found):7.2f}  {goal}")


if __name__ == "__main__":
    main()
