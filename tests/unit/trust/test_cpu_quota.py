"""A node is named for its CPU quota if the kernel counted that it stood still, and not for a quota of all ranks."""

from __future__ import annotations

import pytest
from locate_documents import page, run_of, text

from clusterctl.benchmarks.cpu_quota import QuotaUse, RankQuotas
from clusterctl.report.text import health as health_lines
from clusterctl.results import locate as results
from clusterctl.results import model
from clusterctl.trust import cpu_quota
from clusterctl.trust.health import FleetHealth

NODES = ("n1", "n2", "n3", "n4")
FREE = RankQuotas(10.0)


def use(share=0.1, stopped=60, stopped_s=5.4, group="/sys/fs/cgroup/g"):
    return QuotaUse(group, int(share * 100000), 100000, 100, stopped, int(stopped_s * 1e6))


def held(**changes):
    return RankQuotas(10.0, (use(**changes),))


@pytest.mark.parametrize(
    ("reports", "named", "common"),
    [
        ((FREE, FREE, held(), FREE), ["n3"], []),
        ((FREE, held(), held(), held()), ["n2", "n3", "n4"], []),
        ((held(), held(), held(), held()), [], ["n1", "n2", "n3", "n4"]),
        # All are held back, one of them by a tighter quota.
        ((held(share=0.2), held(share=0.2), held(share=0.12), held(share=0.2)), ["n3"], ["n1", "n2", "n4"]),
        # A quota that is not used up, stopped the group at its start only, or for a short time.
        ((FREE, held(stopped=0, stopped_s=0), FREE, FREE), [], []),
        ((FREE, held(stopped=9, stopped_s=0.9), FREE, FREE), [], []),
        ((FREE, held(stopped=60, stopped_s=0.4), FREE, FREE), [], []),
        # A rank that reported nothing may not have been held back.
        ((held(), held(), held(), None), ["n1", "n2", "n3"], []),
        ((None, None, None, None), [], []),
        ((), [], []),
    ],
)
def test_a_node_is_named_unless_an_equal_quota_held_back_every_rank(reports, named, common):
    found = cpu_quota.held_back(reports, NODES)
    assert [one.node for one in found if not one.is_common] == named
    assert [one.node for one in found if one.is_common] == common


def test_the_ranks_of_a_node_in_one_group_are_one_entry_and_the_tightest_quota_counts():
    outer, inner = use(group="/outer", share=2.0), use(group="/outer/inner", stopped_s=3)
    both = RankQuotas(10.0, (inner, outer))
    longer = RankQuotas(10.0, (use(group="/outer/inner", stopped_s=4), outer))
    (one,) = cpu_quota.held_back((both, longer, FREE), ("n1", "n1", "n2"))
    assert (one.node, one.ranks, one.use.group, one.stopped_s) == ("n1", (0, 1), "/outer/inner", 4.0)
    assert one.what == (
        "held back: a quota of 0.1 CPUs stopped ranks 0, 1 in 60 of 100 periods of 100 ms, for 4.0 of 10.0 s "
        "(cgroup /outer/inner)"
    )


def test_seconds_of_many_cpus_are_no_more_than_the_periods():
    (one,) = cpu_quota.held_back((FREE, held(stopped_s=400)), ("n1", "n2"))
    assert one.stopped_s == 6.0


def test_what_was_not_read_is_told_once_per_node():
    unread = RankQuotas(1.0, (), ("/g: Permission denied",))
    assert cpu_quota.unread((unread, unread, FREE, None), ("n1", "n1", "n2", "n3")) == {
        "n1": ("CPU quota: /g: Permission denied",)
    }


def _document(reports):
    quotas = cpu_quota.held_back(reports, NODES)
    return results.document(run_of(len(NODES), held_back=quotas), "20261124T120000Z-locate-0001")


def test_locate_names_the_node_and_its_cpu_first_and_leaves_it_out_of_the_hostfile():
    document = _document((FREE, FREE, held(), FREE))
    assert document.status.value == "named" and document.named_nodes == ("n3",)
    _, _, first, fix, *_ = text(document).splitlines()
    assert first.startswith("n3 CPU: held back: a quota of 0.1 CPUs stopped rank 2 in 60 of 100 periods")
    assert fix == f"    {cpu_quota.FIX}" and "n3 CPU: held back" in page(document)


def test_a_quota_of_all_ranks_is_a_note_of_locate_and_names_no_node():
    document = _document((held(), held(), held(stopped_s=5.9), held()))
    assert document.status.value == "none" and document.named_nodes == ()
    verdict, _, first, *_ = text(document).splitlines()
    assert verdict.startswith("no node, rail or link was named as slow: 4 nodes, ")
    assert first.startswith(
        "note: equal CPU quotas held back every rank, on n[1-4]; most on n3: held back: a quota"
    )


def test_a_run_with_a_rank_that_was_held_back_is_doubtful_and_prints_the_same_words():
    (one,) = cpu_quota.held_back((FREE, held()), ("n1", "n2"))
    entry = FleetHealth({}, {}).including([(one.node, one.event())], {"n1": ("x",)}).part()
    assert model.status_of((), entry, None).value == "doubtful"
    assert health_lines.lines(entry) == [f"DOUBTFUL: n2 CPU: {one.what} ({cpu_quota.FIX})", "note: n1: x"]
