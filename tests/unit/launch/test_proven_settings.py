"""Which launch of a scaling curve must prove a setting."""

import pytest

from clusterctl.documents.evidence import Calls
from clusterctl.launch import proven_settings
from clusterctl.trust.settings import SettingEvidence
from clusterctl.trust.usage import RankUsage

TOP_K = {"LIGHT_TOPK_ALLREDUCE": "1"}


def evidence(np, read=TOP_K, operation="all_reduce", **mechanisms):
    calls = (Calls(operation, 1 << 21, "", 3),)
    return SettingEvidence(
        np, "ccore", tuple(RankUsage(n, "ccore", read, {}, ("shm",), calls, mechanisms) for n in range(np))
    )


@pytest.mark.parametrize(
    ("np", "read", "left"),
    [
        (1, {}, True),  # one rank reads no variable of a library
        (2, TOP_K, True),  # two ranks of one node: read, but reduced densely
        (2, {}, False),  # what two do not read, four do not read either
        (4, TOP_K, False),  # the last point must prove it
    ],
)
def test_a_setting_is_left_to_more_ranks_only_if_they_may_use_it(np, read, left):
    missing = proven_settings.unproven(TOP_K, (), evidence(np, read))
    assert missing
    assert proven_settings.left_to_more_ranks(missing, np, 4) is left
    assert len(proven_settings.faults(missing)) == 1


def test_a_top_k_all_reduce_proves_its_variable():
    assert not proven_settings.unproven(TOP_K, (), evidence(4, operation="topk_all_reduce"))


def test_a_hook_must_have_run_on_every_rank():
    assert not proven_settings.unproven({}, ("fp16",), evidence(2, fp16=9))
    for found in (evidence(2), evidence(2, fp16=0), SettingEvidence(4, "gloo", evidence(2, fp16=9).usage)):
        (one,) = proven_settings.unproven({}, ("fp16",), found)
        assert "the hook fp16" in one.message and "; expected " in one.message and one.hint
