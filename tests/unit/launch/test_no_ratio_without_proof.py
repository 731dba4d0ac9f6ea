"""No combination of --library, --api, --hook and variables prints a ratio for a setting that nothing read.

Real ranks of collective_core and Gloo report what they read for each API and hook. Every combination is then parsed,
planned, measured with these reports, and rendered.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from bench_requests import bench_requests
from usage_of_ranks import Combination, of_ranks

from clusterctl.cli.bench import compare
from clusterctl.errors import ClusterctlError
from clusterctl.inventory.model import Node
from clusterctl.launch.choose import LIBRARIES
from clusterctl.launch.failure import Outcome
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.interleave import interleave
from clusterctl.launch.readiness import assumed
from clusterctl.launch.viewer import Viewer
from clusterctl.results.model import from_interleaved
from clusterctl.transport.base import HostMap
from clusterctl.workloads.records import MARK

APIS, HOOKS = ("ddp", "horovod"), ("none", "fp16", "topk", "topk=0.02")
TOP_K = ("CCORE_TOPK_ALLREDUCE", "LIGHT_TOPK_ALLREDUCE")
OWN = {
    "CCORE_2D": "0", "CCORE_ALGO": "all_reduce:ring", "CCORE_TOPK_ALLREDUCE": "0", "CCORE_TOPK_RATIO": "0.1",
    "CCORE_SHM_RING_BYTES": "131072", "CCORE_TCP_STREAMS": "2", "CCORE_FUSION_BYTES": "1048576", "CCORE_CYCLE_MS": "2",
    "CCORE_CPU_BINDING": "0", "CCORE_BUCKET_TUNE_DISABLE": "1", "CCORE_NO_SUCH": "1", "CCORE_CUDA_BLOCKS": "8",
    "CCORE_AUTOTUNE_WINDOW_CALLS": "9", "NCCL_ALGO": "Ring", "UCX_TLS": "tcp", "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
}  # fmt: skip
ALIASES = {
    "LIGHT_2D_ALLREDUCE": "0", "LIGHT_TOPK_ALLREDUCE": "0", "LIGHT_TOPK_RATIO": "0.1", "LIGHT_NO_SUCH": "1",
    "HOROVOD_FUSION_THRESHOLD": "1048576", "HOROVOD_CYCLE_TIME": "2", "AIACC_BUCKET_TUNE_DISABLE": "1",
    "AIACC_CPU_BINDING_ENABLE": "0",
}  # fmt: skip
VARIABLES = (
    *(OWN | ALIASES).items(),
    ("CCORE_2D", "1"),
    ("LIGHT_2D_ALLREDUCE", "1"),
    *((name, "1") for name in TOP_K),
)

# What has an effect, from the documents of the libraries; by the way that gradients are compressed.
EVERYWHERE = {"OMP_NUM_THREADS=1"}
GLOO = {*EVERYWHERE, "GLOO_SOCKET_IFNAME=lo"}
CCORE = {
    *EVERYWHERE, "CCORE_ALGO=all_reduce:ring", "CCORE_TCP_STREAMS=2", "CCORE_2D=0", "LIGHT_2D_ALLREDUCE=0",
    "CCORE_CPU_BINDING=0", "AIACC_CPU_BINDING_ENABLE=0",
}  # fmt: skip
TWO_D = {"CCORE_2D=0", "LIGHT_2D_ALLREDUCE=0"}
BUCKETS = {
    "CCORE_FUSION_BYTES=1048576", "HOROVOD_FUSION_THRESHOLD=1048576", "CCORE_CYCLE_MS=2", "HOROVOD_CYCLE_TIME=2",
}  # fmt: skip
SWITCHES = {f"{name}={value}" for name in TOP_K for value in "01"}
RATIOS = {"CCORE_TOPK_RATIO=0.1", "LIGHT_TOPK_RATIO=0.1"}


def effective(library, api, hook):
    """Return the settings that may have a ratio."""
    if library == "gloo":
        return GLOO if api == "ddp" and not hook.startswith("topk") else set()
    if library != "ccore":
        return EVERYWHERE
    found = CCORE | (BUCKETS if api == "horovod" else set())
    if hook != "fp16" or api == "horovod":  # DDP has one hook
        found = found | SWITCHES
    if not hook.startswith("topk"):
        return found
    # DDP's only bucket is sent by top-k, so no dense all_reduce could be 2D; Horovod's buckets of 1 MiB leave one.
    return (found - TWO_D if api == "ddp" else found) | RATIOS


@pytest.fixture(scope="module")
def reports():
    """What each rank reports by backend, API, hook, and whether top-k is on; for own names and for aliases."""
    ways = (("ccore", "ddp"), ("ccore", "horovod"), ("gloo", "ddp"))
    keys = [
        (*way, hook, on)
        for way, hook, on in itertools.product(ways, ("none", "fp16"), (False, True))
        if way[0] == "ccore" or not on
    ]
    asked = [
        Combination(*key[:3], {**names, **({switch: "1"} if key[3] else {})})
        for key in keys
        for names, switch in zip((OWN, ALIASES), TOP_K, strict=True)
    ]
    found = iter(of_ranks(asked))
    return {key: (next(found), next(found)) for key in keys}


class ReportingRunner:
    """Run nothing: each rank reports what a real one reported of the variables that the launch sets."""

    viewer = Viewer()

    def __init__(self, reports):
        self._reports = reports

    def identity(self):
        return SHOWN

    def versions(self, program):
        return None

    def prepare(self, *_):
        nodes = (Node(name=name, address=name, slots=1) for name in "ab")
        return tuple(replace(assumed(node), core_perf="/opt/bin/all_reduce_perf") for node in nodes), ()

    def health(self):
        return HostMap({})

    def check_mesh(self, _plan):
        return SimpleNamespace(faults=())

    def run(self, plan, _logs):
        words = dict(itertools.pairwise(plan.program))
        env = dict(plan.env)
        key = (
            words["--backend"], words.get("--api", "ddp"), words.get("--hook", "none"),
            any(env.get(name) == "1" for name in TOP_K),
        )  # fmt: skip
        out = {rank: self._record(plan, rank, key, env) for rank in range(plan.np)}
        return Outcome(0, out, {}, "", 1.0)

    def _record(self, plan, rank, key, env):
        usage = {"reported_by": key[0], "read": {}, "mechanisms": {"fp16": 3 if key[2] == "fp16" else 0}}
        if key in self._reports:
            own, aliases = (found[rank] for found in self._reports[key])
            usage = {**aliases, "read": {**own["read"], **aliases["read"]}}
        usage["read"] = {name: env[name] for name in usage["read"] if name in env}
        record = {
            "kind": "rank", "rank": rank, "host": plan.node_of_rank[rank], "pid": rank + 1, "device": "cpu",
            "samples_per_s_mean": 10.0, "samples_per_s_spread": 0.0, "loss_first": 7.0, "loss_last": 6.0,
            "parameters_digest": "0x1", "sample": "image", "steps": 4, "proof": {}, "usage": usage,
        }  # fmt: skip
        return f"{MARK}{json.dumps(record)}\n"


def measured(runner, tmp_path, library, api, hook, setting):
    """Return the result of ``bench --compare default,SETTING``; raise ClusterctlError if it is refused before that."""
    (request,) = bench_requests(
        model="resnet50", library=library, api=api, hook=hook, scaling="2", launcher="openmpi"
    )
    chosen, repeats = compare.chosen(f"default,{setting}", 1, library)
    compare.require_trainable(request.training, chosen)
    found = interleave(request, chosen, repeats, runner, tmp_path, lambda _: None)
    return from_interleaved(found, "20261120T091500Z-bench-c0de")


def test_a_ratio_means_that_the_setting_had_an_effect(reports, tmp_path):
    runner = ReportingRunner(reports)
    wrong, seen, refused = [], set(), 0
    for library, api, hook in itertools.product(LIBRARIES, APIS, HOOKS):
        for name, value in VARIABLES:
            setting, place = f"{name}={value}", f"{library} {api} {hook} {name}={value}"
            try:
                result = measured(runner, tmp_path, library, api, hook, setting)
            except ClusterctlError as error:
                refused += 1
                if not error.message or not error.hint:
                    wrong.append(f"{place}: refused without a reason or a hint: {error.message}")
                continue
            points = [point for one in result.variants[1:] for point in one.points]
            if any(point.ratio is not None for point in points):
                seen.add((library, api, hook, setting))
                if setting not in effective(library, api, hook):
                    wrong.append(f"{place}: has a ratio")
            elif not result.proof.failures:
                wrong.append(f"{place}: neither a ratio nor a reason")
    assert not wrong, "\n".join(wrong)
    assert refused > 0
    # The walk is not empty: what has an effect on two real ranks is compared.
    expected = {
        ("ccore", api, hook, setting)
        for api, hook in itertools.product(APIS, HOOKS)
        for setting in effective("ccore", api, hook)
        - {f"{name}=1" for name in TOP_K}
        - {f"{name}=0" for name in TOP_K}
    }
    assert expected <= seen


def test_the_ranks_say_which_hook_ran(reports):
    hooks = {key: {report["hook"] for found in both for report in found} for key, both in reports.items()}
    assert hooks[("ccore", "ddp", "none", True)] == hooks[("ccore", "horovod", "none", True)] == {"topk"}
    assert hooks[("ccore", "ddp", "fp16", False)] == hooks[("gloo", "ddp", "fp16", False)] == {"fp16"}
    assert hooks[("ccore", "horovod", "fp16", True)] == {"fp16+topk"}
    assert hooks[("ccore", "ddp", "none", False)] == {"none"}
