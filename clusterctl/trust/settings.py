"""Judge whether the settings of a variant took effect: each variable must be proven by the library that reads it.

The proof of NCCL's variables is its log, which lists each one that it reads (subsystem ENV). collective_core, torch and
the torch program report theirs. A variable that was read, but that no measured operation can depend on, is not proven.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.documents.evidence import RankPath
from clusterctl.trust.nccl_log_model import NcclLog
from clusterctl.trust.usage import RankUsage

_TRAIN = (
    "train a model (--model) with --hook topk on two or more nodes; gradients below the threshold (1 MiB, "
    "LIGHT_TOPK_THRESHOLD) are reduced densely"
)
_MECHANISMS = {"fp16": "the hook fp16", "bucket_tuning": "tuned buckets (--bucket-cap-mb auto)"}
# Libraries whose variables NCCL's log proves: NCCL itself, and builds of it.
_LOGGED_BY_NCCL = ("nccl", "nccl+ccore", "acspeed", "aiacc")
# It also holds the measured times, which do not depend on the tuner.
_ALWAYS = ("CCORE_CACHE_DIR",)
_OFF = ("0", "false", "no", "off")
_PATH = "CCORE_CUDA_PATH"
# By value of CCORE_CUDA_PATH: what collective_core reports of a rank's path. With `auto` the ranks choose one on the
# device, and staged tensors are its fallback. Unset means the same and claims nothing, so it is not judged.
_REPORTED_PATHS = {
    "auto": re.compile(r"path (stream|kernel|host) \((?!as requested)|between nodes on the GPUs"),
    "stream": re.compile(r"path stream \(as requested|between nodes on the GPUs, inside nodes by stream"),
    "kernel": re.compile(r"path kernel \(as requested|between nodes on the GPUs, inside nodes by kernel"),
    "host": re.compile(r"path host \(as requested"),
    "staged": re.compile(r"staged through pinned host memory: CCORE_CUDA_PATH is staged"),
}


@dataclass(frozen=True, slots=True)
class SettingEvidence:
    """Hold what one launch of ``np`` ranks left: their reports, NCCL's log (None: there is none), and their paths."""

    np: int
    library: str
    usage: tuple[RankUsage, ...] = ()
    log: NcclLog | None = None
    paths: tuple[RankPath, ...] = ()
    debug: str | None = None
    """NCCL_DEBUG of the ranks."""


@dataclass(frozen=True, slots=True)
class Unproven:
    """Hold a variable without a proof: what is wrong, what was expected, and what to do."""

    name: str
    why: str
    expected: str
    hint: str
    read: bool = False
    """The ranks read it, but no operation of this launch depends on it: one of more nodes may."""

    @property
    def message(self) -> str:
        return f"{self.why}; expected {self.expected}"


Reports = Sequence[RankUsage]


@dataclass(frozen=True, slots=True)
class _Condition:
    """Hold what the operations of a run must have done so that variables with this prefix can affect them.

    ``values``: the condition is only for variables that are switched on, or off.
    """

    prefixes: tuple[str, ...]
    holds: Callable[[Reports], bool]
    expected: str
    hint: str
    values: bool | None = None


def _operation(name: str, *algorithms: str) -> Callable[[Reports], bool]:
    return lambda usage: any(
        call.operation == name and (not algorithms or call.algorithm in algorithms)
        for one in usage
        for call in one.calls
    )


def _without(holds: Callable[[Reports], bool]) -> Callable[[Reports], bool]:
    return lambda usage: not holds(usage)


def _transport(name: str) -> Callable[[Reports], bool]:
    return lambda usage: any(name in one.transports for one in usage)


def _mechanism(name: str) -> Callable[[Reports], bool]:
    """Tell whether every rank used a mechanism of the program itself."""
    return lambda usage: bool(usage) and all(one.mechanisms.get(name) for one in usage)


def _switched(*names: str, on: bool) -> Callable[[Reports], bool]:
    def holds(usage: Reports) -> bool:
        return any(name in one.read and _is_on(one.read[name]) is on for one in usage for name in names)

    return holds


def _is_on(value: str) -> bool:
    return value.lower() not in _OFF


_TWO_D = ("CCORE_2D", "LIGHT_2D_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_TORUS_ALLREDUCE")
# Between the CPUs of a node, and between its GPUs.
_2D = ("2d", "2d_gpu")
_TOP_K = ("CCORE_TOPK_ALLREDUCE", "LIGHT_TOPK_ALLREDUCE")
_BINDING = ("CCORE_CPU_BINDING", "AIACC_CPU_BINDING_ENABLE")
# All conditions of a variable must hold. A name is matched as a whole if the condition depends on its value.
_CONDITIONS = (
    _Condition(
        _TOP_K, _without(_operation("topk_all_reduce")), "no top-k all_reduce", "leave it out", values=False,
    ),
    _Condition(
        _TOP_K, _operation("topk_all_reduce"), "a top-k all_reduce among the operations", _TRAIN, values=True,
    ),
    _Condition(
        ("CCORE_TOPK_", "LIGHT_TOPK_"), _operation("topk_all_reduce"), "a top-k all_reduce among the operations",
        _TRAIN,
    ),
    _Condition(
        _TWO_D, _operation("all_reduce", *_2D), "an all_reduce by the algorithm 2d",
        "measure on two or more nodes with two or more ranks each, and with messages of 64 KiB or more", values=True,
    ),
    _Condition(
        _TWO_D, _without(_operation("all_reduce", *_2D)), "no all_reduce by the algorithm 2d", "leave it out",
        values=False,
    ),
    _Condition(
        _BINDING, _mechanism("cpu_binding"), "each rank bound to two or more CPUs",
        "measure a training (--model) on nodes with two or more CPUs per rank", values=True,
    ),
    _Condition(_BINDING, _without(_mechanism("cpu_binding")), "no rank bound", "leave it out", values=False),
    _Condition(
        ("CCORE_CPU_REDUCE_",), _operation("cpu_reduce"), "a cpu_reduce among the operations",
        "measure messages of 8 MiB or more on GPUs, with CCORE_CUDA_PATH=staged in the variant",
    ),
    _Condition(
        ("CCORE_2D", "CCORE_HIERARCHICAL_", "LIGHT_2D_", "LIGHT_HIERARCHICAL_", "HOROVOD_HIERARCHICAL_ALLREDUCE",
         "HOROVOD_TORUS_"),
        _operation("all_reduce"), "an all_reduce among the measured operations",
        "measure all_reduce, or a training",
    ),
    _Condition(
        ("CCORE_TCP_", "CCORE_SOCKET_", "HOROVOD_GLOO_IFACE"), _transport("tcp"), "data that goes over TCP",
        "measure on two or more nodes, or add CCORE_TRANSPORT=tcp to the variant",
    ),
    _Condition(
        ("CCORE_SHM_", "CCORE_CMA"), _transport("shm"), "data that goes through shared memory",
        "measure with several ranks per node",
    ),
    _Condition(
        ("CCORE_AUTOTUNE_", "HOROVOD_AUTOTUNE_", "AIACC_AUTOTUNE_", "CCORE_CACHE_", "AIACC_CONFIG_CACHE_"),
        _switched("CCORE_AUTOTUNE", "HOROVOD_AUTOTUNE", on=True), "the tuner to be on",
        "add CCORE_AUTOTUNE=1 to the variant",
    ),
    _Condition(
        ("CCORE_CACHE_UPDATE_", "CCORE_CACHE_MODEL", "AIACC_CONFIG_CACHE_UPDATE_"),
        _switched("CCORE_CACHE_DISABLE", "AIACC_CONFIG_CACHE_DISABLE", on=False), "the cache of choices to be on",
        "add CCORE_CACHE_DISABLE=0 to the variant",
    ),
)  # fmt: skip


def unproven(environment: Mapping[str, str], evidence: SettingEvidence) -> tuple[Unproven, ...]:
    """Return each variable of the environment that the evidence does not prove to be in effect, with the reason."""
    found = (_judge(name, value, evidence) for name, value in environment.items())
    return tuple(one for one in found if one is not None)


def unproven_mechanisms(wished: Sequence[str], evidence: SettingEvidence) -> tuple[Unproven, ...]:
    """Return each mechanism that the command line asked for, but that not every rank reports as used."""
    reported = {one.rank for one in evidence.usage}
    return tuple(
        Unproven(
            name,
            f"not every rank reports that it used {_MECHANISMS[name]}",
            f"a count of each of {evidence.np} ranks",
            "see the rank's logs in the run folder; leave the option out to measure without it",
        )
        for name in wished
        if len(reported) != evidence.np or not _mechanism(name)(evidence.usage)
    )


def read_by(environment: Mapping[str, str], evidence: SettingEvidence) -> dict[str, str]:
    """Return the source of the proof of each variable that is proven."""
    missing = {one.name for one in unproven(environment, evidence)}
    return {name: _source(name, evidence) for name in environment if name not in missing}


def _judge(name: str, value: str, evidence: SettingEvidence) -> Unproven | None:
    if not value:
        return Unproven(
            name, f"{name} is empty, which no library reports as read", "a value",
            f"compare with `default`, and remove {name} from `env` of the inventory",
        )  # fmt: skip
    if _in_nccl_log(name, evidence) or _in_front(name, value, evidence):
        return None
    reports = evidence.usage
    ignored = next((one.ignored[name] for one in reports if name in one.ignored), None)
    if ignored is not None:
        return Unproven(
            name, f"{name} had no effect: {ignored}", "it to take effect on every rank",
            f"remove the other setting, or compare without {name}",
        )  # fmt: skip
    if not _read_by_all(name, evidence):
        return _not_read(name, evidence)
    if name == _PATH and not _paths_are(value, evidence):
        return _other_path(value, evidence)
    for condition in _CONDITIONS:
        if _concerns(condition, name, value) and not condition.holds(reports):
            return Unproven(
                name,
                f"{name} was read, but the operations of this run do not show its effect",
                condition.expected,
                condition.hint,
                read=True,
            )
    return None


def _concerns(condition: _Condition, name: str, value: str) -> bool:
    if name in _ALWAYS:
        return False
    if condition.values is None:
        return name.startswith(condition.prefixes) and name not in _TOP_K
    return name in condition.prefixes and condition.values is _is_on(value)


def _read_by_all(name: str, evidence: SettingEvidence) -> bool:
    ranks = {one.rank for one in evidence.usage if name in one.read}
    return len(ranks) == evidence.np


def _in_nccl_log(name: str, evidence: SettingEvidence) -> bool:
    """Tell whether NCCL logged that it read this variable; it logs some of them on one rank only."""
    return evidence.log is not None and any(name in process.settings for process in evidence.log.processes)


def _in_front(name: str, value: str, evidence: SettingEvidence) -> bool:
    """Tell whether the reports of collective_core's NCCL-symbol library prove one of the two that it shows."""
    if evidence.library != "nccl+ccore" or len({path.rank for path in evidence.paths}) != evidence.np:
        return False
    return name == "CCORE_NCCL" or (name == _PATH and _paths_are(value, evidence))


def _paths_are(value: str, evidence: SettingEvidence) -> bool:
    """Tell whether every rank reports a path that a value of CCORE_CUDA_PATH requests."""
    wanted = _REPORTED_PATHS.get(value)
    found = {path.rank: path.path or "" for path in evidence.paths}
    return wanted is not None and len(found) == evidence.np and all(map(wanted.search, found.values()))


def _other_path(value: str, evidence: SettingEvidence) -> Unproven:
    """Return why a value of CCORE_CUDA_PATH that the ranks have read is not the path that they took."""
    wanted = _REPORTED_PATHS.get(value)
    other = next(
        (path for path in evidence.paths if wanted is None or not wanted.search(path.path or "")), None
    )
    reports = (
        f"rank {other.rank} reports the path: {other.path}"
        if other and other.path
        else "not every rank reports a path"
    )
    return Unproven(
        _PATH,
        f"{_PATH}={value} was read, but {reports}",
        "a path that the ranks choose on the device" if value == "auto" else f"the path {value} as requested",
        f"remove {_PATH} from the variant, or choose a path that the ranks have (one of {', '.join(_REPORTED_PATHS)})",
        read=True,
    )


def _source(name: str, evidence: SettingEvidence) -> str:
    if _in_nccl_log(name, evidence):
        return "NCCL's log"
    if evidence.library == "nccl+ccore" and not _read_by_all(name, evidence):
        return "the report of collective_core's NCCL-symbol library"
    return "the ranks' reports"


def _not_read(name: str, evidence: SettingEvidence) -> Unproven:
    """Return why nothing proves that this variable was read."""
    nothing = f"nothing in this run read {name}"
    if evidence.library == "nccl+ccore" and name.startswith("CCORE_"):
        return Unproven(
            name, f"nothing in this run proves that {name} was read: collective_core's NCCL-symbol library reports "
            "only CCORE_NCCL and the path of CCORE_CUDA_PATH",
            "one of these, with a report of every rank", "measure it with --library ccore",
        )  # fmt: skip
    if evidence.library in _LOGGED_BY_NCCL:
        if evidence.log is None or not evidence.log.processes:
            return Unproven(
                name, f"{nothing}, or NCCL did not log it (NCCL_DEBUG={evidence.debug or 'unset'})",
                f"a line `{name} set by environment` in NCCL's log",
                "remove NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE from the variant and from `env` of the "
                "inventory",
            )  # fmt: skip
        return Unproven(
            name, f"{nothing}: NCCL's log names each variable that NCCL reads, but not this one",
            f"a line `{name} set by environment` in NCCL's log", _hint(name, evidence.library),
        )  # fmt: skip
    if not evidence.usage or any(one.reported_by == "none" for one in evidence.usage):
        return Unproven(
            name, f"{nothing}, or the ranks did not report it",
            f"a report of each of {evidence.np} ranks that names {name}",
            "measure with two or more ranks; with --library ccore, install this version's collective_core on the nodes",
        )  # fmt: skip
    reader = (
        "collective_core's report" if evidence.library == "ccore" else f"the report on {evidence.library}"
    )
    return Unproven(
        name, f"{nothing}: {reader} names each variable that was read, but not this one",
        f"{name} in the report of every rank", _hint(name, evidence.library),
    )  # fmt: skip


def _hint(name: str, library: str) -> str:
    if library == "ccore" and name.startswith(("CCORE_TOPK_", "LIGHT_TOPK_")):
        return _TRAIN
    if library != "ccore" and name.startswith(("LIGHT_", "HOROVOD_", "AIACC_")):
        return f"leave it out, or let collective_core read it where it has this name: --compare ccore,ccore+{name}=..."
    if name.startswith("NCCL_"):
        return "check its spelling; NCCL reads some variables only where they apply, such as NCCL_IB_* with RDMA NICs"
    return "check its spelling and the library that reads it, or leave it out"
