"""Check whether a library works in an image, before the build starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterctl.documents.evidence import CompatibilityFinding
from clusterctl.documents.kinds import Compatibility
from clusterctl.images import gpu_code
from clusterctl.images.base_image import BaseImage, Version, dotted, version
from clusterctl.images.elf import ElfNeeds
from clusterctl.images.library import Library
from clusterctl.images.packages import VerifiedPackage

_TAGS = re.compile(r"-(?P<python>[a-z0-9.]+)-(?P<abi>[a-z0-9_.]+)-(?P<platform>[a-z0-9_.]+)\.whl$")
_MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}

# Compute capabilities by name (NVIDIA, CUDA GPUs, developer.nvidia.com/cuda-gpus); the first match is used.
_CAPABILITIES: tuple[tuple[str, str], ...] = (
    (r"\bGB300\b|\bB300\b", "103"),
    (r"\bGB200\b|\bB200\b|\bB100\b", "100"),
    (r"\bH100\b|\bH200\b|\bH800\b|\bH20\b|\bGH200\b", "90"),
    # Workstation cards of three generations have the same numbers: Quadro RTX 4000, RTX A4000, RTX 4000 Ada Generation.
    (r"\bQuadro RTX\b", "75"),
    (r"\bL4\b|\bL40S?\b|\bL20\b|\bRTX 4\d{3}|\bRTX \d{4} (SFF )?Ada\b", "89"),
    (r"\bA10G?\b|\bA40\b|\bA16\b|\bA2\b|\bRTX A\d{4}|\bRTX 3\d{3}", "86"),
    (r"\bA100\b|\bA800\b|\bA30\b", "80"),
    (r"\bT4\b|\bRTX 2\d{3}", "75"),
    (r"\bV100S?\b", "70"),
    (r"\bP100\b", "60"),
)


def capability_of(gpu: str) -> str | None:
    """Return a GPU's compute capability (``90``) by nvidia-smi's name; None for an unknown name."""
    return next((value for pattern, value in _CAPABILITIES if re.search(pattern, gpu)), None)


def judge(
    library: Library,
    packages: Sequence[VerifiedPackage],
    needs: Sequence[ElfNeeds] | None,
    base: BaseImage,
    *,
    architectures: frozenset[str] | None = None,
    gpus: Sequence[str] = (),
) -> tuple[CompatibilityFinding, ...]:
    """Compare what a library needs with what the base image has.

    ``needs``: its ELF files, None where this machine cannot read them. ``architectures``: those of its GPU code
    (``sm_90``, ``compute_90``), None where unknown. ``gpus``: the names of the nodes' GPUs, as far as known.
    """
    findings = [*_elf(library, needs, base)]
    findings += [_wheel(package, base) for package in packages if package.kind == "wheel"]
    findings += [_plugin(library, package, base) for package in packages if package.name == library.plugin]
    if base.family not in library.families:
        findings.append(
            CompatibilityFinding(
                "distribution",
                Compatibility.REFUSED,
                f"{library.title} does not support {base.os or base.family}",
            )
        )
    if architectures is not None or any(map(gpu_code.holds_gpu_code, needs or ())):
        findings += _gpu_code(architectures, gpus)
    return tuple(findings)


def _elf(library: Library, needs: Sequence[ElfNeeds] | None, base: BaseImage) -> list[CompatibilityFinding]:
    if needs is None:
        why = "readelf is not installed on this machine (apt-get install binutils)"
        return [
            CompatibilityFinding(what, Compatibility.UNKNOWN, why) for what in ("SONAME", "GLIBC", "GLIBCXX")
        ]
    if not needs:
        return []
    findings = _machine(needs, base)
    if library.soname is not None:
        names = sorted({need.soname for need in needs if need.soname})
        judgement = Compatibility.FITS if library.soname in names else Compatibility.REFUSED
        shown = (
            library.soname
            if judgement is Compatibility.FITS
            else f"{', '.join(names) or 'none'}, not {library.soname}"
        )
        findings.append(CompatibilityFinding("SONAME", judgement, f"the library's soname is {shown}"))
    findings.append(_newest("GLIBC", needs, base.glibc, base))
    findings.append(_newest("GLIBCXX", needs, base.glibcxx, base))
    return findings


def _machine(needs: Sequence[ElfNeeds], base: BaseImage) -> list[CompatibilityFinding]:
    """Check the processor for which the library was built; GPU code, which is also ELF, is skipped."""
    built = sorted({_MACHINES[need.machine] for need in needs if need.machine in _MACHINES})
    if base.machine is None or not built:
        return []
    judgement = Compatibility.FITS if base.machine in built else Compatibility.REFUSED
    return [
        CompatibilityFinding(
            "machine", judgement, f"built for {', '.join(built)}; {base.name} is {base.machine}"
        )
    ]


def _newest(
    what: str, needs: Sequence[ElfNeeds], there: Version | None, base: BaseImage
) -> CompatibilityFinding:
    asking = [(need.versions[what], need.path.name) for need in needs if what in need.versions]
    if not asking:
        return CompatibilityFinding(what, Compatibility.FITS, "not required")
    wanted, who = max(asking)
    if there is None:
        return CompatibilityFinding(
            what, Compatibility.UNKNOWN, f"{who} needs {dotted(wanted)}; {base.name} has none yet"
        )
    judgement = Compatibility.FITS if wanted <= there else Compatibility.REFUSED
    return CompatibilityFinding(
        what, judgement, f"{who} needs {dotted(wanted)}; {base.name} has {dotted(there)}"
    )


def _wheel(package: VerifiedPackage, base: BaseImage) -> CompatibilityFinding:
    """Check a wheel by the tags in its file name (packaging.python.org, platform compatibility tags)."""
    what, found = f"wheel {package.name}", _TAGS.search(package.file_name)
    if found is None:
        return CompatibilityFinding(
            what, Compatibility.UNKNOWN, f"the name of {package.file_name} has no platform tags"
        )
    for platform in found["platform"].split("."):
        glibc = re.fullmatch(r"manylinux_(\d+)_(\d+)_.*", platform)
        if platform.startswith(("win", "macosx", "musllinux")):
            return CompatibilityFinding(
                what, Compatibility.REFUSED, f"{package.file_name} is not for Linux with glibc"
            )
        foreign = next(
            (m for m in _MACHINES.values() if m != base.machine and platform.endswith(f"_{m}")), None
        )
        if foreign is not None and base.machine is not None:
            return CompatibilityFinding(
                what, Compatibility.REFUSED, f"built for {foreign}; {base.name} is {base.machine}"
            )
        if glibc and (int(glibc[1]), int(glibc[2])) > base.glibc:
            return CompatibilityFinding(
                what, Compatibility.REFUSED, f"{platform}, and {base.name} has glibc {dotted(base.glibc)}"
            )
    tags = [re.fullmatch(r"cp(\d)(\d{1,9})", tag) for tag in found["python"].split(".")]
    pythons = [(int(tag[1]), int(tag[2])) for tag in tags if tag]
    if not pythons:
        return CompatibilityFinding(what, Compatibility.FITS, f"{found['python']}: any Python 3")
    shown = ", ".join(map(dotted, pythons))
    if base.python is None:
        return CompatibilityFinding(
            what, Compatibility.REFUSED, f"built for Python {shown}; {base.name} has no Python"
        )
    fits = base.python in pythons or (found["abi"] == "abi3" and base.python >= min(pythons))
    judgement = Compatibility.FITS if fits else Compatibility.REFUSED
    return CompatibilityFinding(
        what, judgement, f"built for Python {shown}; {base.name} has {dotted(base.python)}"
    )


def _plugin(library: Library, package: VerifiedPackage, base: BaseImage) -> CompatibilityFinding:
    what = f"plugin {package.name}"
    if base.torch is None:
        return CompatibilityFinding(what, Compatibility.REFUSED, f"{base.name} has no PyTorch for the plugin")
    found = version(base.torch)
    minor = dotted(found[:2]) if found else base.torch
    wanted = library.torch_versions.get(minor)
    if wanted is None:
        known = ", ".join(library.torch_versions)
        return CompatibilityFinding(
            what, Compatibility.REFUSED, f"{base.name} has PyTorch {base.torch}; plugins are for {known}"
        )
    named = re.search(r"-(\d+(?:\.\d+)+)", package.file_name)
    given = named[1] if named else "unknown"
    judgement = Compatibility.FITS if given == wanted else Compatibility.REFUSED
    return CompatibilityFinding(
        what, judgement, f"PyTorch {base.torch} requires {wanted}; {package.file_name} is {given}"
    )


def _gpu_code(architectures: frozenset[str] | None, gpus: Sequence[str]) -> list[CompatibilityFinding]:
    if architectures is None:
        return [
            CompatibilityFinding(
                "GPU code",
                Compatibility.UNKNOWN,
                "no GPU code was found, and neither this machine nor the image has cuobjdump",
            )
        ]
    code = ", ".join(sorted(architectures))
    if not gpus:
        return [
            CompatibilityFinding(
                "GPU code", Compatibility.UNKNOWN, f"{code}; the nodes' GPUs are not known: clusterctl check"
            )
        ]
    findings = []
    for gpu in dict.fromkeys(gpus):
        wanted = capability_of(gpu)
        if wanted is None:
            findings.append(
                CompatibilityFinding(
                    "GPU code", Compatibility.UNKNOWN, f"{code}; the capability of {gpu} is not known"
                )
            )
            continue
        fits = _runs_on(architectures, int(wanted))
        judgement = Compatibility.FITS if fits else Compatibility.REFUSED
        findings.append(CompatibilityFinding("GPU code", judgement, f"{code}; {gpu} is sm_{wanted}"))
    return findings


def _runs_on(architectures: frozenset[str], capability: int) -> bool:
    """Tell whether code runs on a GPU: binary code within its major version, PTX from its version upwards.

    (NVIDIA, CUDA programming guide, binary and PTX compatibility; ``sm_90a`` runs on 9.0 alone, and ``sm_100f``, as
    ``compute_100f``, on its family: 10.0 and 10.3.)
    """
    for text in architectures:
        found = re.fullmatch(r"(sm|compute)_(\d{1,9})([af]?)", text)
        if found is None:
            continue
        built = int(found[2])
        if found[3] == "a":
            fits = built == capability
        elif found[1] == "compute" and not found[3]:
            fits = built <= capability
        else:
            fits = built // 10 == capability // 10 and built <= capability
        if fits:
            return True
    return False
