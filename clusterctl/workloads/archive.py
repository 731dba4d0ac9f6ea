"""Build the workloads as one zip file that Python runs by path: a node needs torch, but not clusterctl."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

ARCHIVE = "workloads.pyz"
_MEMBERS = (
    "__init__",
    "__main__",
    "entry",
    "exchange",
    "bert",
    "bert_task",
    "binding",
    "cpu_quota",
    "data_parallel",
    "energy",
    "foreign_library",
    "image_task",
    "llama",
    "models",
    "places",
    "rank_values",
    "ranks",
    "records",
    "shared_gpu",
    "synthetic_training",
    "torchvision_models",
    "trainer",
    "training_sizes",
    "usage",
    "collectives",
    "collective_perf",
    "neighbours",
    "device/__init__",
    "device/copies",
    "device/gemm",
    "device/measured",
    "device/one_device",
    "device/overlap",
    "device/pattern",
    "device/perf",
    "device/sensors",
    "device/sustained",
    "device/timing",
    "device/training",
    "device/twice",
    "locate/__init__",
    "locate/alone",
    "locate/cause",
    "locate/controls",
    "locate/core_rank",
    "locate/cpu",
    "locate/ends",
    "locate/fleet",
    "locate/intermittent",
    "locate/measure",
    "locate/rank_sum",
    "locate/rounds",
    "locate/search",
    "locate/tools",
    "locate/torch_rank",
    "locate/trial",
    "locate/verdict",
)
_PACKAGE_MEMBERS = ("text/__init__", "text/foreign", "text/visible")
"""Modules of clusterctl itself that the workloads use; they need the standard library only."""
_ENTRY = "from clusterctl.workloads.__main__ import main\n\nraise SystemExit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def build() -> bytes:
    """Return the archive, built once; the same sources give the same bytes."""
    folder = Path(__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        members = {"__main__.py": _ENTRY, "clusterctl/__init__.py": ""}
        for name in _MEMBERS:
            members[f"clusterctl/workloads/{name}.py"] = (folder / f"{name}.py").read_text(encoding="utf-8")
        for name in _PACKAGE_MEMBERS:
            members[f"clusterctl/{name}.py"] = (folder.parent / f"{name}.py").read_text(encoding="utf-8")
        for path, text in members.items():
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
