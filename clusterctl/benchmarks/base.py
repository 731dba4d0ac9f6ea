"""Define the common types of benchmarks, which build an argv and parse the ranks' output; no side effects."""

from __future__ import annotations

from clusterctl.documents import evidence, kinds

FaultKind = kinds.FaultKind
Fault = evidence.Fault
RankProof = evidence.RankProof
