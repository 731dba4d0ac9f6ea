"""The versions in an image and on its hosts, side by side, and what of them does not fit together. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from clusterctl.documents.evidence import (
    CompatibilityFinding,
    SoftwareVersion,
    SoftwareVersions,
    VersionOnNodes,
)
from clusterctl.documents.kinds import Compatibility
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.python import NodePython, PythonFacts
from clusterctl.facts.rdma_providers import is_listed, missing_provider
from clusterctl.inventory import nodeset
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import some

READS = frozenset({"gpu", "modules", "pci", "python", "rdma", "system", "versions"})
"""The subjects of the facts that these functions read."""

# The newest CUDA that each branch of the driver supports (NVIDIA, CUDA Toolkit release notes, "CUDA Toolkit and
# Corresponding Driver Versions").
_CUDA_OF_BRANCH = {
    396: (9, 2), 410: (10, 0), 418: (10, 1), 440: (10, 2), 450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3),
    470: (11, 4), 495: (11, 5), 510: (11, 6), 515: (11, 7), 520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2),
    545: (12, 3), 550: (12, 4), 555: (12, 5), 560: (12, 6), 565: (12, 7), 570: (12, 8), 575: (12, 9), 580: (13, 0),
    590: (13, 1),
}  # fmt: skip
# From CUDA 11 on, a driver runs programs of every release of its own major version (NVIDIA, CUDA Compatibility,
# "Minor Version Compatibility").
_MINOR_COMPATIBILITY = 11
_LIBRARIES = (
    "collective-core",
    "horovod",
    "tencent-lightcc",
    "lightcc",
    "torch-accl",
    "acspeed",
    "aiacc-nccl",
)
# The first MLNX_OFED whose libraries are those of rdma-core; libibverbs was 1.0.0 before, and 1.1 is rdma-core's.
_FIRST_RDMA_CORE = 5
_LEGACY_LIBIBVERBS = "1.0."


def _python(facts: NodeFacts) -> PythonFacts:
    return facts.python.or_else(NodePython()).ranks or PythonFacts("")


def _joined(*versions: str | None) -> str | None:
    return ", ".join(dict.fromkeys(filter(None, versions))) or None


def _os(facts: NodeFacts) -> str | None:
    return None if facts.system.os.value is None else facts.system.os.value.pretty_name or None


def _kernel(facts: NodeFacts) -> str | None:
    return facts.system.kernel.value


def _driver(facts: NodeFacts) -> str | None:
    return None if facts.gpu.driver.value is None else facts.gpu.driver.value.version


def _rdma_driver(facts: NodeFacts) -> str | None:
    """Return the release of an out-of-tree stack; the kernel's own has no version beside the kernel's."""
    ofed = facts.gpudirect.ofed_version.value
    return f"OFED {ofed}" if ofed else "of the kernel" if facts.rdma.devices.or_else(()) else None


def _rdma_libraries(facts: NodeFacts) -> str | None:
    return _joined(facts.versions.ofed, *map(_libibverbs, facts.versions.libibverbs))


def _libibverbs(version: str) -> str:
    """Return the release of a libibverbs by its file name: 1.14.39.0 is rdma-core 39.0 (its CMakeLists.txt)."""
    found = re.fullmatch(r"1\.\d+\.(\d+\.\d+)", version)
    return f"rdma-core {found[1]}" if found else f"libibverbs {version}"


def _python_version(facts: NodeFacts) -> str | None:
    return _python(facts).version


def _cuda(facts: NodeFacts) -> str | None:
    packaged = _of_python(
        facts, "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"
    )
    return _joined(packaged, *facts.versions.cuda)


def _cudnn(facts: NodeFacts) -> str | None:
    packaged = _of_python(facts, "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11")
    return _joined(packaged, *facts.versions.cudnn)


def _nccl(facts: NodeFacts) -> str | None:
    packaged = _of_python(facts, "nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    return _joined(packaged, *facts.versions.nccl_files)


def _of_python(facts: NodeFacts, *names: str) -> str | None:
    found = _python(facts).package(*names)
    return None if found is None else f"{found} (Python)"


def _library(facts: NodeFacts) -> str | None:
    there = {package.name: package.version for package in _python(facts).packages}
    return _joined(facts.versions.library, *(f"{name} {there[name]}" for name in _LIBRARIES if name in there))


def _torch(facts: NodeFacts) -> str | None:
    return _python(facts).torch


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    read: Callable[[NodeFacts], str | None]
    of_the_kernel: bool = False
    """Whether a container has no version of its own, because it shares the host's kernel."""


_ROWS = (
    _Row("OS", _os),
    _Row("kernel", _kernel, of_the_kernel=True),
    _Row("NVIDIA driver", _driver, of_the_kernel=True),
    _Row("RDMA driver", _rdma_driver, of_the_kernel=True),
    _Row("RDMA libraries", _rdma_libraries),
    _Row("Python", _python_version),
    _Row("CUDA", _cuda),
    _Row("cuDNN", _cudnn),
    _Row("NCCL", _nccl),
    _Row("library", _library),
    _Row("torch", _torch),
)


def side_by_side(
    hosts: Mapping[str, NodeFacts], images: Mapping[str, NodeFacts] | None = None
) -> SoftwareVersions:
    """Return the versions on the hosts, and in the image of each; None: ranks run on the hosts themselves.

    The facts of an image are those of a container of it, which also show the host's kernel and drivers. They are used
    where the facts of a host lack these.
    """
    ranks = hosts if images is None else images
    rows = [
        SoftwareVersion(
            row.name,
            image=()
            if images is None or row.of_the_kernel
            else _on_nodes({name: row.read(facts) for name, facts in images.items()}),
            host=_on_nodes(
                {name: _of_host(row.read, hosts.get(name), facts) for name, facts in ranks.items()}
                if row.of_the_kernel
                else {name: row.read(facts) for name, facts in hosts.items()}
            ),
        )
        for row in _ROWS
    ]
    where = "host" if images is None else "image"
    found = grouped(
        (finding, name)
        for name, facts in ranks.items()
        for finding in _findings(facts, hosts.get(name), where)
    )
    return SoftwareVersions(
        tuple(rows),
        tuple(
            CompatibilityFinding(what, judgement, f"{nodeset.fold(names)}: {reason}")
            for (what, judgement, reason), names in found.items()
        ),
    )


def _of_host(read: Callable[[NodeFacts], str | None], host: NodeFacts | None, ranks: NodeFacts) -> str | None:
    """Return a version of the kernel, which a container shows as well."""
    return (read(host) if host is not None else None) or read(ranks)


def _on_nodes(versions: Mapping[str, str | None]) -> tuple[VersionOnNodes, ...]:
    found = grouped((version, name) for name, version in versions.items())
    return tuple(VersionOnNodes(version, tuple(names)) for version, names in found.items())


def _findings(
    facts: NodeFacts, host: NodeFacts | None, where: str
) -> Iterator[tuple[str, Compatibility, str]]:
    """Yield what is judged of one node: what, whether it fits, and why; ``where`` its ranks run: image or host."""
    if (cuda := _judge_cuda(facts, _of_host(_driver, host, facts), where)) is not None:
        yield ("CUDA", *cuda)
    if (rdma := _judge_rdma(facts, host or facts, where)) is not None:
        yield ("RDMA libraries", *rdma)


def _judge_cuda(facts: NodeFacts, driver: str | None, where: str) -> tuple[Compatibility, str] | None:
    """Judge the CUDA of torch, or else the newest toolkit, by the driver; None without one of both."""
    wanted = _cuda_of_ranks(facts)
    branch = re.match(r"(\d{3,4})\.", driver or "")
    if wanted is None or driver is None or branch is None:
        return None
    said = f"CUDA {wanted[0]}.{wanted[1]} of the {where}"
    known = [cuda for number, cuda in _CUDA_OF_BRANCH.items() if number <= int(branch[1])]
    if not known:
        return Compatibility.UNKNOWN, f"{said}; the CUDA of driver {driver} is not known"
    newest = max(known)
    told = f"{said}; driver {driver} supports up to {newest[0]}.{newest[1]}"
    # Later branches than those of the table support at least what its last one does.
    if wanted <= newest or int(branch[1]) > max(_CUDA_OF_BRANCH):
        return Compatibility.FITS, told
    if wanted[0] == newest[0] and wanted[0] >= _MINOR_COMPATIBILITY:
        return (
            Compatibility.FITS,
            f"{told}, and later releases of CUDA {wanted[0]} without code compiled at run time",
        )
    if facts.versions.cuda_compat:
        return (
            Compatibility.FITS,
            f"{told}; its forward compatibility package {facts.versions.cuda_compat[0]} helps on data centre GPUs",
        )
    return (
        Compatibility.REFUSED,
        f"{told}: upgrade the driver, or use {'an image' if where == 'image' else 'a torch'} with an older CUDA",
    )


def _cuda_of_ranks(facts: NodeFacts) -> tuple[int, int] | None:
    """Return the CUDA that ranks load: that of torch's packages, of torch's name (+cu124), or the newest toolkit."""
    packaged = _python(facts).package(
        "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"
    )
    if found := re.match(r"(\d{1,3})\.(\d{1,3})", packaged or ""):
        return int(found[1]), int(found[2])
    if found := re.search(r"\+cu(\d{1,2})(\d)$", _torch(facts) or ""):
        return int(found[1]), int(found[2])
    toolkits = [re.match(r"(\d{1,3})\.(\d{1,3})", text) for text in facts.versions.cuda]
    return max(((int(one[1]), int(one[2])) for one in toolkits if one), default=None)


def _judge_rdma(facts: NodeFacts, host: NodeFacts, where: str) -> tuple[Compatibility, str] | None:
    """Judge whether the libraries where ranks run can use the host's RDMA devices; None without devices."""
    # A network namespace of its own may hide them from the container.
    devices = host.rdma.devices.or_else(()) or facts.rdma.devices.or_else(())
    if not devices:
        return None
    names = some([device.name for device in devices])
    unlisted = [device for device in devices if not is_listed(facts, device)]
    if unlisted and facts.rdma.libibverbs is None:
        return (
            Compatibility.REFUSED,
            f"the {where} has no libibverbs for {names}: NCCL uses TCP instead of RDMA",
        )
    lacking = list(dict.fromkeys(filter(None, (missing_provider(facts, device) for device in unlisted))))
    if lacking:
        return (
            Compatibility.REFUSED,
            f"libibverbs of the {where} has no provider {some(lacking)} for {names}: NCCL uses TCP instead of RDMA",
        )
    libraries, driver = _rdma_libraries(facts), _of_host(_rdma_driver, host, facts)
    said = f"{libraries or 'libibverbs'} of the {where}, driver {driver}"
    found = re.match(r"OFED (\d{1,3})\.", driver or "")
    old_driver = found is not None and int(found[1]) < _FIRST_RDMA_CORE
    versions = facts.versions.libibverbs
    old_libraries = bool(versions) and all(one.startswith(_LEGACY_LIBIBVERBS) for one in versions)
    if versions and old_driver != old_libraries:
        return (
            Compatibility.UNKNOWN,
            f"{said}: MLNX_OFED 5 replaced these libraries by rdma-core's, so both sides must be older, or neither",
        )
    return Compatibility.FITS, said
