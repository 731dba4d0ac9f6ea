"""Rows that read facts: what the kernel logged, what the run added, and which node differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from case_facts import facts_of

from clusterctl.acceptance.model import FleetPlace, RowPlace, RowStatus
from clusterctl.acceptance.rows import sanity
from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.health import DeviceCount, Health, KernelEvent, KernelLog
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, HostMap

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
NODES = tuple(Node(name=name, address=name) for name in ("a", "b", "c"))


def log(*texts):
    return Reading(KernelLog(0.0, 90.0, tuple(KernelEvent(50.0, text) for text in texts)))


def facts(**health):
    return replace(facts_of({}), health=Health(**health))


def row(name):
    return next(one for one in (*sanity.ROWS, *sanity.AT_THE_END) if one.name == name)


@pytest.mark.parametrize(
    ("reading", "statuses", "not_run"),
    [
        (log(XID), [RowStatus.FAIL], ""),
        (log(), [], ""),
        (Reading(None, ReadStatus.EMPTY), [], ""),
        (Reading(None, ReadStatus.DENIED, "needs root"), [], "the kernel log was not read: needs root"),
    ],
)
def test_the_kernel_log_since_boot_is_judged(reading, statuses, not_run):
    found = row("kernel-log").work.read(RowPlace(NODES[0], facts(log=reading), "/d"))
    assert [one.status for one in found.findings] == statuses
    assert found.not_run == not_run


def place(before, after):
    nodes = NODES[: len(before)]
    return FleetPlace(
        nodes, lambda: None, Path(), lambda _: None, dict(before), dict(before), lambda _: HostMap(after)
    )


def test_only_what_the_run_added_is_named():
    counter = DeviceCount("rdma", "mlx5_0 port 1", "link_downed", 3)
    old = facts(log=log(XID), counts=Reading((counter,)))
    new = facts(log=log(XID), counts=Reading((replace(counter, value=5),)))
    lost = Failure(FailureKind.TIMEOUT, "c: no answer")
    before = {"a": old, "b": old, "c": old}
    answer = row("errors").work.run(place(before, {"a": old, "b": new, "c": lost}))
    assert answer.parsed["a"].findings == ()
    assert [one.status for one in answer.parsed["b"].findings] in ([RowStatus.WARN], [RowStatus.FAIL])
    assert "2 more" in answer.parsed["b"].findings[0].text
    assert answer.parsed["c"].not_run == "c: no answer"


PCI = ["0000:1b:00.0 030200 10de:2335 driver=nvidia"]


@pytest.mark.parametrize(
    ("words", "container", "statuses", "not_run"),
    [
        ("remap_failure=Yes ecc_uncorrected=16", "docker", [RowStatus.FAIL], ""),
        ("", "docker", [], "gpu-health: this is a container"),
        ("ecc_uncorrected=Insufficient_Permissions", None, [], "gpu-health: nvidia-smi could not read GPU 0"),
        ("", None, [], ""),
    ],
)
def test_gpus_that_are_not_judged_are_never_ok(words, container, statuses, not_run):
    case = {
        "pci": PCI,
        "gpu_health": [f"0000:1b:00.0 {words}"],
        **({"container": container} if container else {}),
    }
    found = row("gpu-health").work.read(RowPlace(NODES[0], facts_of(case), ""))
    assert [one.status for one in found.findings] == statuses
    assert found.not_run.startswith(not_run) and bool(found.not_run) == bool(not_run)
