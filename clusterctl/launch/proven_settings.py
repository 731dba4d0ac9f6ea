"""Refuse a launch whose variant has a setting that nothing proves to be in effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.evidence import RankPath
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.plan import RequestPlan
from clusterctl.trust import settings
from clusterctl.trust.nccl_log_model import NcclLog
from clusterctl.trust.settings import SettingEvidence, Unproven
from clusterctl.trust.usage import RankUsage


def evidence(
    plan: LaunchPlan,
    chosen: RequestPlan,
    log: NcclLog | None,
    usage: tuple[RankUsage, ...],
    paths: tuple[RankPath, ...],
) -> SettingEvidence:
    """Return what a launch left that can prove settings."""
    return SettingEvidence(plan.np, chosen.library, usage, log, paths, dict(plan.env).get("NCCL_DEBUG"))


def unproven(
    environment: Mapping[str, str], mechanisms: Sequence[str], found: SettingEvidence
) -> tuple[Unproven, ...]:
    """Return each setting and each mechanism of the workload without a proof."""
    return (*settings.unproven(environment, found), *settings.unproven_mechanisms(mechanisms, found))


def left_to_more_ranks(missing: Sequence[Unproven], np: int, most: int) -> bool:
    """Tell whether a later launch, of up to ``most`` ranks, may prove what one of ``np`` ranks does not.

    One rank alone does not communicate, and one node has no data between nodes; a variable that several ranks do not
    read is not read by more ranks either.
    """
    return np < most and (np == 1 or all(one.read for one in missing))


def faults(missing: Sequence[Unproven]) -> tuple[Fault, ...]:
    """Return a fault for each setting without a proof."""
    return tuple(
        Fault(FaultKind.SETTING_UNPROVEN, f"no figures: {one.message}", hint=one.hint) for one in missing
    )
