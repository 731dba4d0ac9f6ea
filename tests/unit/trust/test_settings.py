"""Which settings of a variant are proven: every library with every kind of variable."""

import json

import pytest

from clusterctl.documents.evidence import RankPath
from clusterctl.launch.environment import Library
from clusterctl.trust import settings, usage
from clusterctl.trust.nccl_log import LogReader
from clusterctl.trust.settings import SettingEvidence

LIBRARIES = Library.__args__
REPORT = {
    "reported_by": "ccore",
    "read": {"OMP_NUM_THREADS": "1"},
    "ignored": {},
    "transports": ["shm"],
    "calls": [{"operation": "all_reduce", "bytes": 1024, "algorithm": "oneshot", "calls": 20}],
}
VALUES = {
    "NCCL_ALGO": "Ring", "NCCL_NO_SUCH": "1", "NCCL_DEBUG": "INFO", "CCORE_2D": "0", "CCORE_ALGO": "all_reduce:ring",
    "CCORE_TOPK_ALLREDUCE": "1", "CCORE_TOPK_RATIO": "0.1", "CCORE_SHM_RING_BYTES": "65536", "CCORE_TCP_STREAMS": "2",
    "CCORE_CACHE_DIR": "/d", "CCORE_AUTOTUNE_WINDOW_CALLS": "9", "CCORE_CPU_REDUCE_CHUNK_BYTES": "4096",
    "CCORE_NCCL": "0", "CCORE_CUDA_PATH": "kernel", "CCORE_CUDA_BLOCKS": "8", "CCORE_NO_SUCH": "1",
    "LIGHT_2D_ALLREDUCE": "1", "LIGHT_TOPK_ALLREDUCE": "1", "HOROVOD_FUSION_THRESHOLD": "0", "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1", "UCX_TLS": "tcp", "EMPTY": "",
}  # fmt: skip
# What the library's dump_config names: it lists what it reads, whether an operation depends on it or not.
DUMPED = {
    "CCORE_2D", "CCORE_ALGO", "CCORE_TOPK_RATIO", "CCORE_SHM_RING_BYTES", "CCORE_TCP_STREAMS", "CCORE_CACHE_DIR",
    "CCORE_AUTOTUNE_WINDOW_CALLS", "CCORE_CPU_REDUCE_CHUNK_BYTES", "LIGHT_2D_ALLREDUCE",
}  # fmt: skip
PROVEN = {
    "nccl": {"NCCL_ALGO", "OMP_NUM_THREADS"},
    "nccl+ccore": {"NCCL_ALGO", "OMP_NUM_THREADS", "CCORE_NCCL", "CCORE_CUDA_PATH"},
    "gloo": {"GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"},
    "accl": {"OMP_NUM_THREADS"}, "horovod": {"OMP_NUM_THREADS"}, "lightcc": {"OMP_NUM_THREADS"},
    "acspeed": {"NCCL_ALGO", "OMP_NUM_THREADS"}, "aiacc": {"NCCL_ALGO", "OMP_NUM_THREADS"},
    "ccore": {
        "CCORE_2D", "CCORE_ALGO", "CCORE_SHM_RING_BYTES", "CCORE_CACHE_DIR", "OMP_NUM_THREADS",
    },
}  # fmt: skip


def nccl_log(*lines):
    reader = LogReader()
    for rank in (0, 1):
        text = "".join(f"gpu1:{rank + 7}:{rank + 7} [{rank}] NCCL INFO {line}\n" for line in lines)
        reader.read_text(text, source=rank)
    return reader.result()


def reports(read, **fields):
    report = {**REPORT, "read": {**REPORT["read"], **read}, **fields}
    return usage.of_reports((rank, report) for rank in (0, 1))


def evidence(library):
    """What two ranks of a library leave that reads what it can."""
    if library == "ccore":
        return SettingEvidence(2, library, reports({name: VALUES[name] for name in DUMPED}))
    if library == "gloo":
        return SettingEvidence(
            2, library, reports({"GLOO_SOCKET_IFNAME": "lo"}, reported_by="gloo", calls=[])
        )
    if library in ("accl", "horovod", "lightcc"):
        return SettingEvidence(2, library, reports({}, reported_by=library, calls=[]))
    paths = tuple(
        RankPath(rank, "path kernel (as requested), 2 ranks", None, {"ncclAllReduce": 9}) for rank in (0, 1)
    )
    log = nccl_log("NCCL version 2.28.9+cuda12.9", "NCCL_ALGO set by environment to Ring")
    front = paths if library == "nccl+ccore" else ()
    return SettingEvidence(2, library, reports({}, reported_by="nccl", calls=[]), log, front, "INFO")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", VALUES)
def test_only_what_was_read_and_used_is_proven(library, name):
    found = settings.unproven({name: VALUES[name]}, evidence(library))
    assert (not found) == (name in PROVEN[library])
    assert settings.read_by({name: VALUES[name]}, evidence(library)).keys() == PROVEN[library] & {name}
    for one in found:
        assert name in one.message
        assert "; expected " in one.message
        assert one.hint


CHOSEN = "kernel: path kernel (every pair has peer access), 2 ranks"
REQUESTED = "kernel: path kernel (as requested), 2 ranks"
STAGED = "staged: staged through pinned host memory: "


@pytest.mark.parametrize("library", ["ccore", "nccl+ccore"])
@pytest.mark.parametrize(
    ("value", "path", "proven"),
    [
        ("auto", CHOSEN, True),
        ("auto", "host: path host (ranks 0 and 1 have no peer access), 2 ranks", True),
        ("auto", REQUESTED, False),
        ("auto", f"{STAGED}libcollective_core_cuda.so cannot be used: no driver", False),
        ("auto", f"{STAGED}2 nodes; between nodes on the GPUs, inside nodes by kernel", True),
        ("auto", f"{STAGED}2 nodes; between nodes on the CPUs: no memory", False),
        ("auto", None, False),
        ("kernel", REQUESTED, True),
        ("kernel", CHOSEN, False),
        ("kernel", f"{STAGED}2 nodes; between nodes on the GPUs, inside nodes by kernel", True),
        ("stream", REQUESTED, False),
        ("stream", f"{STAGED}the path 'stream' was requested, but ranks 0 and 1 have no peer access", False),
        ("staged", f"{STAGED}CCORE_CUDA_PATH is staged", True),
        ("staged", CHOSEN, False),
        ("fast", CHOSEN, False),
    ],
)
def test_the_path_of_cuda_tensors_is_proven_by_the_path_of_every_rank(library, value, path, proven):
    read = {"CCORE_CUDA_PATH": value}
    paths = (RankPath(0, path), RankPath(1, path))
    usage_of_ccore = reports(read) if library == "ccore" else ()
    found = settings.unproven(read, SettingEvidence(2, library, usage_of_ccore, None, paths))
    assert (not found) == proven
    assert all("CCORE_CUDA_PATH" in one.message and one.hint for one in found)
    if path is None and library == "ccore":
        assert "but not every rank reports a path" in found[0].message
    # The proof needs the path of every rank.
    assert settings.unproven(read, SettingEvidence(2, library, usage_of_ccore, None, paths[:1]))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", [name for name in VALUES if name != "CCORE_NCCL"])
def test_nothing_is_proven_without_reports(library, name):
    assert settings.unproven({name: VALUES[name]}, SettingEvidence(2, library))


def test_a_report_of_one_rank_proves_nothing_for_two():
    one = SettingEvidence(2, "ccore", reports({"CCORE_2D": "0"})[:1])
    assert settings.unproven({"CCORE_2D": "0"}, one)


def test_a_setting_that_another_one_overrides_is_named():
    found = reports({}, ignored={"LIGHT_2D_ALLREDUCE": "CCORE_2D=1 takes precedence"})
    (one,) = settings.unproven({"LIGHT_2D_ALLREDUCE": "0"}, SettingEvidence(2, "ccore", found))
    assert one.message.startswith("LIGHT_2D_ALLREDUCE had no effect: CCORE_2D=1 takes precedence")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("CCORE_TCP_STREAMS", {"transports": ["shm", "tcp"]}),
        ("CCORE_TOPK_RATIO", {"calls": [{**REPORT["calls"][0], "operation": "topk_all_reduce"}]}),
        ("LIGHT_2D_ALLREDUCE", {"calls": [{**REPORT["calls"][0], "algorithm": "2d_gpu"}]}),
        ("CCORE_AUTOTUNE_WINDOW_CALLS", {"CCORE_AUTOTUNE": "1"}),
    ],
)
def test_a_setting_is_proven_once_an_operation_depends_on_it(name, other):
    read = {name: VALUES[name]}
    assert settings.unproven(read, SettingEvidence(2, "ccore", reports(read)))
    fields = {key: value for key, value in other.items() if key in REPORT}
    more = {key: value for key, value in other.items() if key not in REPORT}
    assert not settings.unproven(read, SettingEvidence(2, "ccore", reports({**read, **more}, **fields)))


def test_a_silenced_log_is_named_as_the_reason():
    (one,) = settings.unproven(
        {"NCCL_ALGO": "Ring"}, SettingEvidence(2, "nccl", log=nccl_log(), debug="WARN")
    )
    assert "NCCL_DEBUG=WARN" in one.message
    assert "remove NCCL_DEBUG" in one.hint


def test_malformed_reports_prove_nothing():
    lines = [
        f"# Usage of rank 0: {json.dumps(REPORT)}", "# Usage of rank 1: {", "# Usage of rank 2: {}",
        '# Usage of rank 3: {"read": 3, "calls": [7, {"operation": "x"}], "transports": {}, "reported_by": []}',
    ]  # fmt: skip
    found = usage.of_table("\n".join(lines))
    assert [(one.rank, one.reported_by, dict(one.read), len(one.calls)) for one in found] == [
        (0, "ccore", {"OMP_NUM_THREADS": "1"}, 1), (2, "none", {}, 0), (3, "none", {}, 0)
    ]  # fmt: skip
