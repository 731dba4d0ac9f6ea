"""Runs of ``locate`` on simulated fleets, as documents: nodes are n1, n2 and so on."""

from __future__ import annotations

from simulated_pairs import SimulatedFleet

from clusterctl.benchmarks.locate import Located
from clusterctl.documents.evidence import FactDifference
from clusterctl.documents.kinds import Effect
from clusterctl.launch.locate import LocateRun
from clusterctl.report.html import of_view as html
from clusterctl.report.text import of_view as plain
from clusterctl.results import locate as results
from clusterctl.trust.health import HealthEvent
from clusterctl.views import locate
from clusterctl.workloads.locate.fleet import RankFleet

LINK = FactDifference("n3", "PCIe link of mlx5_1", "16 GT/s x8", "32 GT/s x16")
CRC = HealthEvent(
    "mlx5_1 port 1", "symbol_error", "symbol_error grew by 1432", Effect.DOUBTFUL, 1432, "a bad cable", "x"
)


def run_of(
    nodes, places=1, unlike=(), rails=(), differences=(), health=None, low_windows=(), held_back=(), **faults
):
    """Return the run of a simulated fleet with nodes n1, n2 and so on."""
    fleet = SimulatedFleet(nodes, 3, places=places, bursts=False, noise=0.02, **faults)
    verdict = fleet.locate()
    names = RankFleet.of([f"n{rank // places + 1}" for rank in range(nodes * places)])
    located = Located(names, verdict, fleet.examine(verdict), (), 3, low_windows, unlike=unlike)
    return LocateRun(located, "nccl", "openmpi", rails, (), 48.0, (), differences, health, held_back)


def document(*args, **more):
    return results.document(run_of(*args, **more), "20261124T120000Z-locate-0001")


def page(found, history=()):
    return html.render(locate.view(found, history))


def text(found, history=()):
    return plain.render(locate.view(found, history))
