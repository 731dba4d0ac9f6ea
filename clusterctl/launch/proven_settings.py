"""Refuse a launch whose variant has a setting that nothing proves to be in effect."""

from __future__ import annotations

from collections.abc import Mapping

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.plan import RequestPlan
from clusterctl.trust import settings
from clusterctl.trust.nccl_log_model import NcclLog
from clusterctl.trust.paths import RankPath
from clusterctl.trust.settings import SettingEvidence
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


def faults(environment: Mapping[str, str], found: SettingEvidence) -> tuple[Fault, ...]:
    """Return a fault for each setting without a proof."""
    return tuple(
        Fault(FaultKind.SETTING_UNPROVEN, f"not compared: {one.message}", hint=one.hint)
        for one in settings.unproven(environment, found)
    )
