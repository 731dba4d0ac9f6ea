"""Lab nodes with a docker engine each, for the scripts that measure images and containers; and what they cost."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from clusterctl import lab as labs
from clusterctl.errors import LabError
from clusterctl.lab import Lab, LabOptions, containers

_TRIES = 5
_STATISTICS = "/sys/class/net/{}/statistics/{}_bytes"


@dataclass(frozen=True)
class Nodes:
    """A lab that is up. Nodes share this machine's cores and disk, but no engine, image or network stack."""

    lab: Lab

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in the order of the inventory."""
        return tuple(node.name for node in self.lab.nodes)

    def on(self, name: str, command: str) -> str:
        """Run a shell command line on a node through the outer engine, beside SSH, and return what it says."""
        with containers.engine() as client:
            box = client.containers.get(self.lab.node(name).container_id or "")
            status, output = box.exec_run(["sh", "-c", command])
        text = output.decode(errors="replace").strip()
        if status != 0:
            raise SystemExit(f"{name}: {command}: {text}")
        return text

    def everywhere(self, command: str) -> dict[str, str]:
        """Run a shell command line on all nodes, two at a time; return what each says."""
        with ThreadPoolExecutor(2) as pool:
            return dict(
                zip(self.names, pool.map(lambda name: self.on(name, command), self.names), strict=True)
            )

    def received_bytes(self) -> dict[str, int]:
        """Return what each node's own interface has received since it is up."""
        return {
            node.name: self._number(node.name, f"cat {_STATISTICS.format(node.fabric_interface, 'rx')}")
            for node in self.lab.nodes
        }

    def _number(self, name: str, command: str) -> int:
        """Return the number that a command line prints; on a busy machine docker loses the output of short ones."""
        said = (self.on(name, command) for _ in range(_TRIES))
        return int(next(filter(None, said)))

    def cpu_s(self) -> float:
        """Return the CPU seconds of all nodes together, with all that their engines run."""
        with containers.engine() as client:
            used = [
                client.api.stats(node.container_id, stream=False, one_shot=True)["cpu_stats"]["cpu_usage"][
                    "total_usage"
                ]
                for node in self.lab.nodes
            ]
        return sum(used) / 1e9

    def controller_bytes(self) -> int:
        """Return what this machine itself has sent into the nodes' network since it exists.

        The bridge's own counter: frames that nodes send each other pass through its ports and are not in it.
        """
        return int(Path(_STATISTICS.format(self.bridge(), "tx")).read_text())

    def bridge(self) -> str:
        """Return the interface by which this machine is in the nodes' network."""
        with containers.engine() as client:
            (network,) = client.networks.list(filters={"label": f"{containers.LABEL}={self.lab.lab_id}"})
        return f"br-{network.id[:12]}"


@contextlib.contextmanager
def nodes_with_engines(count: int) -> Iterator[Nodes]:
    """Give running lab nodes of the docker driver; they and their network, volumes and files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="clusterctl-bench-") as folder:
        directory = Path(folder) / "lab"
        try:
            lab = labs.up(LabOptions(driver="docker", nodes=count, directory=directory, engines=True))
        except LabError as error:
            raise SystemExit(f"cannot start nodes here: {error.message}; {error.hint}") from None
        try:
            yield Nodes(lab)
        finally:
            labs.down(directory)
