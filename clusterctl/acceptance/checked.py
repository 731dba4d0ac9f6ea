"""Check what a row's parser read against the facts of the node: devices that it has, each value once, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clusterctl.acceptance.model import Parsed
from clusterctl.facts.model.node import NodeFacts
from clusterctl.text.foreign import NotUnderstood

_MOST_FINDINGS = 1000
_MOST = 1e18
"""Larger values are rejected, so that sums and ratios stay finite."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices that rows may name: GPUs by number, their pairs, and RDMA devices by name."""

    gpus: int = 0
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, facts: NodeFacts) -> NodeDevices:
        """Return the devices of a node."""
        return cls(
            len(facts.gpu.devices.or_else(())),
            frozenset(device.name for device in facts.rdma.devices.or_else(())),
        )

    def has(self, device: str) -> bool:
        """Return whether the node has a device that a row names; an empty name is the node itself."""
        if not device or device in self.names:
            return True
        numbers = device.removeprefix("GPU ").split("-")
        return (
            device.startswith("GPU ")
            and len(numbers) <= 2
            and all(
                # "01" would be a second name of GPU 1.
                one.isascii()
                and one.isdigit()
                and len(one) < 5
                and str(int(one)) == one
                and int(one) < self.gpus
                for one in numbers
            )
        )


def check(parsed: Parsed, devices: NodeDevices) -> None:
    """Raise NotUnderstood for a value out of bounds, a device that the node lacks, or a value that comes twice."""
    if len(parsed.findings) > _MOST_FINDINGS:
        raise NotUnderstood(f"expected at most {_MOST_FINDINGS} messages, not {len(parsed.findings)}")
    for one in parsed.measurements:
        if not abs(one.value) <= _MOST:
            raise NotUnderstood(f"{one.field} must be at most {_MOST:g}, not {one.value:g}")
    _once(((one.field, one.device) for one in parsed.measurements), devices.has)
    _once(((one.field, one.device) for one in parsed.fingerprints), devices.has)


def _once(keys: Iterable[tuple[str, str]], has: Callable[[str], bool]) -> None:
    seen: set[tuple[str, str]] = set()
    for field, device in keys:
        if not has(device):
            raise NotUnderstood(f"{field}: the facts of the node have no {device[:40]}")
        if (field, device) in seen:
            raise NotUnderstood(f"{field} of {device or 'the node'} comes twice")
        seen.add((field, device))
