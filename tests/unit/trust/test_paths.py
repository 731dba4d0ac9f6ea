"""Which path the ranks' data took: what collective_core reports, on CUDA tensors and in front of NCCL."""

import json

from clusterctl.documents.evidence import RankPath
from clusterctl.documents.proof import VariantProof
from clusterctl.report.text import trust as trust_lines
from clusterctl.trust import paths

ONE_GPU = "kernel: 2 ranks on one GPU, MPS"


def report(*communicators, **counts):
    """Return the line that libcollective_core_nccl.so writes; counts are (taken, passed) by function."""
    functions = {
        name: {"taken": taken, "taken_bytes": 8 * taken, "passed": passed, "passed_bytes": 8 * passed}
        for name, (taken, passed) in counts.items()
    }
    entries = [{"ranks": 2, "rank": 0, "path": path, "why": why} for path, why in communicators]
    return json.dumps({"schema": "collective_core.nccl/1", "communicators": entries, "functions": functions})


def test_each_ranks_report_is_read_from_its_output():
    first = f"NCCL WARN x\n{report((ONE_GPU, None), ncclAllReduce=(40, 2), ncclSend=(0, 3))}\n"
    again = f"{first}[tag] {report((ONE_GPU, None), ncclAllReduce=(1, 0))}\n"
    assert paths.of_reports({1: again, 0: first}) == (
        RankPath(0, ONE_GPU, None, {"ncclAllReduce": 40}, {"ncclAllReduce": 2, "ncclSend": 3}),
        RankPath(1, ONE_GPU, None, {"ncclAllReduce": 41}, {"ncclAllReduce": 2, "ncclSend": 3}),
    )


def test_the_tuners_choices_are_read_and_shown_by_runs_of_sizes():
    choices = [
        {"collective": "all_reduce", "size_class": power, "by": "packets" if power < 13 else "nccl"}
        for power in (10, 11, 12, 13, 15)
    ]
    forged = [
        7,
        {"collective": 3, "size_class": 1, "by": "x"},
        {"collective": "a", "size_class": True, "by": "x"},
    ]
    told = json.loads(report((ONE_GPU, None), ncclAllReduce=(40, 2)))
    (path,) = paths.of_reports({0: json.dumps({**told, "choices": [*choices, *forged]})})
    assert path.chosen == {"all_reduce 2^13": "nccl", "all_reduce 2^15": "nccl"} | {
        f"all_reduce 2^{power}": "packets" for power in (10, 11, 12)
    }
    (line,) = trust_lines.paths([path])
    assert line.endswith("; tuned: all_reduce 2^10-2^12 packets, all_reduce 2^13 nccl, all_reduce 2^15 nccl")


def test_what_is_no_report_is_ignored():
    forged = '{"schema": "collective_core.nccl/1", "communicators": [7], "functions": {"a": {"taken": true}}}'
    assert paths.of_reports({0: '{"schema": "collective_core.nccl/1"', 1: "{}"}) == ()
    assert paths.of_reports({0: forged}) == (RankPath(0),)


def test_the_table_has_the_paths_of_cuda_tensors():
    text = f"# Path of rank 0: {ONE_GPU}\n 8 2 float\n# Path of rank 1: {ONE_GPU}\n"
    found = paths.of_table(text)
    assert [(path.rank, path.path) for path in found] == [(0, ONE_GPU), (1, ONE_GPU)]
    assert trust_lines.paths(found) == [f"path of rank 0-1: {ONE_GPU}"]


def test_a_run_in_which_nothing_was_taken_says_why():
    alone = paths.of_reports({0: report((None, "the ranks are on several nodes"), ncclAllReduce=(0, 5))})
    (line,) = trust_lines.paths(alone)
    assert "took no call (the ranks are on several nodes)" in line
    (line,) = trust_lines.lines(VariantProof(paths=()))
    assert "did not report" in line
