"""The proof of a result is typed from the measurement to the report; a stored one is validated where it is read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from result_documents import collective, measured_collective, slow_rank_training
from topology_documents import four_nodes

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.neighbours import Neighbourhood, Neighbours
from clusterctl.documents.bench import BenchResult
from clusterctl.documents.evidence import Calls, GpuDirectNode, GraphSearch, RankPath, SlowPart
from clusterctl.documents.kinds import Effect
from clusterctl.documents.proof import Proof
from clusterctl.errors import ResultError
from clusterctl.launch.fast_path import Trust
from clusterctl.results import model
from clusterctl.results.damage import read_as_stored
from clusterctl.results.record import Record, result_of
from clusterctl.trust import gpudirect
from clusterctl.trust.health import FleetHealth, HealthEvent
from clusterctl.trust.links import NodeLinks, NvLink
from clusterctl.trust.nccl_log_model import NcclLog, ProcessLog
from clusterctl.trust.usage import RankUsage

NODES = (GpuDirectNode("a", "proven", {"NET/IB/GDRDMA": 2}), GpuDirectNode("b", "sockets", cause="why"))
LOG = NcclLog((ProcessLog(0, "a", 1, graphs=(GraphSearch(1, 2, 20.0, 10.0, "NVL", "PIX"),)),))
EVENT = HealthEvent("GPU 3", "pcie_replays", "12 more", Effect.DOUBTFUL, 12, "reseat", "NVML")


def whole():
    """Return the result of a collective whose proof has almost every entry."""
    measured = replace(
        measured_collective(faults=(Fault(FaultKind.RANK_DIED, "rank 1 died", 1, "a", "look there"),)),
        trust=Trust(4, 1, NodeLinks(4, NvLink(4, 18, 25.0)), LOG, gpudirect.of_nodes(NODES)),
        neighbours=Neighbourhood(1 << 22, tuple(Neighbours(r, f"n{r}", {9: 5.0 - r // 3 * 3}) for r in range(4))),
        slow=(SlowPart(("n3",), 0, None, 0.4, 1e-6),),
        paths=(RankPath(0, "kernel", None, {"ncclAllReduce": 9}),),
        usage=(RankUsage(0, "ccore", {"CCORE_2D": "0"}, calls=(Calls("all_reduce", 1024, "ring", 20),)),),
        health=FleetHealth({"a": (EVENT,)}, {"b": ("not root",)}),
    )  # fmt: skip
    result = model.from_measured(measured, "20261120T091500Z-bench-c0de")
    return result.model_copy(update={"proof": result.proof.model_copy(update={"topology": four_nodes()})})


@pytest.mark.parametrize(
    "document", [whole().document(), slow_rank_training().document], ids=["collective", "training"]
)
def test_a_stored_proof_is_read_back_as_it_was_made(document):
    stored = json.loads(json.dumps(document))
    assert BenchResult.model_validate(stored).document() == document
    assert result_of(stored).proof.model_dump(mode="json") == stored["proof"]
    (variant,) = stored["variants"]
    # Of a plain run, too, each entry is in one place, and omitted instead of null if it does not apply.
    assert not {*stored["proof"]} & {*variant["proof"]}
    assert None not in (*stored["proof"].values(), *variant["proof"].values())


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("health", {"doubtful": True, "events": []}, "proof.health.unread: this key is missing"),
        ("stragglers", {"2": 7}, "proof.stragglers.2: expected a list, not 7"),
    ],
)
def test_a_damaged_entry_of_a_variant_is_named_with_its_place(entry, value, why):
    document = json.loads(json.dumps(collective().document))
    document["variants"][0]["proof"][entry] = value
    with pytest.raises(ValueError, match=f"variants.0.{why}"):
        result_of(document)


def test_entries_of_a_later_version_are_kept():
    proof = Proof.model_validate({"hardware": "x", "news": {"from": "later"}})
    assert (proof.more, proof.hardware) == ({"news"}, "x")
    assert proof.model_dump(mode="json") == {"hardware": "x", "news": {"from": "later"}}
    assert Proof().model_dump() == {}


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("ranks", [{"rank": "x", "host": "a", "pid": 1, "device": "d"}], "proof.ranks.0.rank: expected a whole"),
        ("ranks", [{"rank": 0, "host": "a", "pid": 1, "device": "d", "x": 1}], "proof.ranks.0.x: unknown key"),
        ("failures", [{"kind": "bored", "message": "m"}], "proof.failures.0.kind: expected 'crashed', "),
    ],
)  # fmt: skip
def test_a_damaged_entry_is_named_with_its_place(tmp_path, entry, value, why):
    good = collective()
    document = {**good.document, "proof": {**good.document["proof"], entry: value}}
    record = Record(good.summary, document)
    with pytest.raises(ResultError) as refused, read_as_stored(record.summary.run, tmp_path):
        assert record.result
    assert why in refused.value.message
    assert refused.value.hint
