"""Whether the ranks used a library of others: every reason against it is named, and nothing is proven by default."""

import pytest

from clusterctl.benchmarks.base import FaultKind
from clusterctl.images import library
from clusterctl.launch import foreign_library
from clusterctl.trust import usage
from clusterctl.trust.foreign_library import unproven

FILE = {"path": "/usr/lib/python3/site-packages/aiacc_nccl/libnccl.so.2", "sha256": "8351" + "0" * 60}
LOADED = "gpu1:7:7 [0] NCCL INFO AIACC NCCL BACKEND loaded!\n"
NO_LICENSE = "gpu1:7:7 [0] misc/alicloud_utils.cc:90 NCCL WARN -- AIACC LICENSE CHECK FAILED. --\n"


def used(*files):
    """Return the reports of as many ranks."""
    return usage.of_reports((rank, {"files": list(one)}) for rank, one in enumerate(files))


@pytest.mark.parametrize(
    ("files", "text", "rank", "reason"),
    [
        ([[FILE], [FILE]], LOADED, None, None),
        ([[FILE], []], LOADED, 1, "rank 1 has no file of Alibaba Cloud AIACC-NCCL mapped"),
        ([[FILE]], LOADED, 1, "rank 1 has no file of Alibaba Cloud AIACC-NCCL mapped"),
        ([[FILE], [{**FILE, "sha256": "ab" * 32}]], LOADED, 1, "rank 1 has another build of Alibaba Cloud AIACC-NCCL"),
        ([[FILE], ["malformed"]], LOADED, 1, "rank 1 has no file"),
        ([[FILE], [FILE]], "", None, "no rank printed the words by which it reports its use"),
        ([[FILE], [FILE]], NO_LICENSE, 0, "its licence check failed, because this machine is not an instance of"),
        ([[], []], NO_LICENSE, 0, "AIACC LICENSE CHECK FAILED"),
    ],
)  # fmt: skip
def test_a_library_is_proven_by_every_rank(files, text, rank, reason):
    found = unproven(foreign_library.proof("aiacc"), 2, used(*files), ({0: text, 1: ""}, {}))
    if reason is None:
        assert found == ()
        return
    (fault,) = found
    assert (fault.kind, fault.rank) == (FaultKind.LIBRARY_UNPROVEN, rank)
    assert reason in fault.message
    assert fault.hint


def test_libraries_that_bench_knows_itself_need_no_proof_of_a_vendor():
    assert [
        name for name in ("nccl", "gloo", "ccore", "nccl+ccore", None) if foreign_library.described(name)
    ] == []
    assert foreign_library.proof("ccore") is None
    assert foreign_library.wanted("ccore") == ""


def test_bench_runs_every_library_that_a_file_describes_for_it():
    described = {name for name in library.names() if library.load(name).bench is not None}
    assert described == set(foreign_library.FOREIGN)
    for name in foreign_library.FOREIGN:
        _, bench = foreign_library.described(name)
        assert (name in foreign_library.WITH_HOROVOD_API) == bench.horovod
