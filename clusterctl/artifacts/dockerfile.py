"""Render the Dockerfile of an image with a collective library: the layers that change least come first."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterctl.artifacts.text_template import fill
from clusterctl.errors import ArtifactError

Family = Literal["debian", "rhel"]

# docker's grammar of references (github.com/distribution/reference), without its length limits.
_REFERENCE = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")

# Families of well-known bases, by the last part of their name; the first match is used.
_FAMILIES: tuple[tuple[str, Family], ...] = (
    (r"(^|[/:_-])(rockylinux|almalinux|centos|rhel|ubi\d*|oraclelinux|fedora|rocky|alma)", "rhel"),
    (r"(^|[/:_-])(debian|ubuntu|pytorch|taco-train|nemo|tensorflow)", "debian"),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Hold distribution packages for one layer, omitted if the base already has what they provide."""

    comment: str
    packages: Mapping[Family, tuple[str, ...]]
    unless: Mapping[Family, str]
    then: Mapping[Family, tuple[str, ...]] = field(default_factory=dict)


_RDMA: dict[Family, tuple[str, ...]] = {
    "debian": ("libibverbs1", "ibverbs-providers", "ibverbs-utils", "librdmacm1"),
    "rhel": ("libibverbs", "libibverbs-utils", "librdmacm", "rdma-core"),
}
_NO_HOST_KEYS = "rm -f /etc/ssh/ssh_host_*"
# A container cannot set an audit id, so a required pam_loginuid would end every session.
_SESSIONS = (
    "{ [ ! -e /etc/pam.d/sshd ] || sed -i '/pam_loginuid/s/required/optional/' /etc/pam.d/sshd; }",
    "mkdir -p /run/sshd",
)
# RHEL installs Open MPI as an environment module, which SSH sessions do not load.
_OPEN_MPI_IN_PATH = (
    "{ [ ! -d /usr/lib64/openmpi/lib ] || { ln -sf /usr/lib64/openmpi/bin/* /usr/local/bin/ "
    "&& echo /usr/lib64/openmpi/lib >/etc/ld.so.conf.d/clusterctl-openmpi.conf && ldconfig; }; }"
)
PYTHON = Layer(
    "Python, unless the base brings one.",
    packages=dict.fromkeys(("debian", "rhel"), ("python3",)),
    unless=dict.fromkeys(("debian", "rhel"), "command -v python3"),
)
LAYERS: tuple[Layer, ...] = (
    Layer(
        "RDMA userspace with its providers: without them libibverbs finds no device, and NCCL goes over sockets.",
        packages=_RDMA,
        unless={
            "debian": f"dpkg -s {' '.join(_RDMA['debian'])} >/dev/null 2>&1",
            "rhel": f"rpm -q {' '.join(_RDMA['rhel'])} >/dev/null 2>&1",
        },
    ),
    Layer(
        "SSH for mpirun. Host keys belong to a container and not to an image: none stays here.",
        packages={
            "debian": ("openssh-server", "openssh-client"),
            "rhel": ("openssh-server", "openssh-clients"),
        },
        unless=dict.fromkeys(("debian", "rhel"), "{ [ -x /usr/sbin/sshd ] && command -v ssh; }"),
        then=dict.fromkeys(("debian", "rhel"), (_NO_HOST_KEYS, *_SESSIONS)),
    ),
    Layer(
        "Open MPI, unless the base brings an MPI.",
        packages={"debian": ("openmpi-bin",), "rhel": ("openmpi",)},
        unless={
            "debian": "command -v mpirun",
            "rhel": "command -v mpirun || [ -x /usr/lib64/openmpi/bin/mpirun ]",
        },
        then={"rhel": (_OPEN_MPI_IN_PATH,)},
    ),
)


@dataclass(frozen=True, slots=True)
class ModuleEdit:
    """Hold sed expressions for the file of a Python module; each must change something."""

    module: str
    expressions: tuple[str, ...]
    torch: tuple[str, ...] = ()
    """The minor versions of PyTorch whose file is edited, as ``1.10``; empty: of every version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Hold the content of an image; its build context holds ``library/`` and the files of ``context_files``."""

    base: str
    family: Family
    title: str
    inside: str
    """The directory in the image that receives the content of ``library/``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[ModuleEdit, ...] = ()
    installed: tuple[str, ...] = ()
    """File names of packages in ``packages/`` that install themselves: .rpm, .sh and .run."""
    nccl_tests: str | None = None
    """File name of the source archive of nccl-tests, in ``nccl-tests/``."""
    labels: Mapping[str, str] = field(default_factory=dict)


def family_of(base: str) -> Family | None:
    """Return the family of a base image by its name; None if the name is unknown."""
    for pattern, family in _FAMILIES:
        if re.search(pattern, base):
            return family
    return None


def require_reference(name: str) -> None:
    """Raise ArtifactError unless docker accepts this as the name of an image."""
    if not _REFERENCE.fullmatch(name):
        raise ArtifactError(
            f"{name!r} is not a valid image name",
            hint="use NAME:TAG or NAME@sha256:... in lower case, as for docker pull",
        )


def render(recipe: Recipe) -> str:
    """Return the Dockerfile; raise ArtifactError for names that Dockerfile syntax would change."""
    _check(recipe)
    python_path = "PYTHONPATH" in recipe.environment
    parts = [
        fill("docker", "base.j2", title=recipe.title, base=recipe.base, family=recipe.family),
        *(_install(layer, recipe.family) for layer in (*LAYERS, *((PYTHON,) if python_path else ()))),
    ]
    if recipe.nccl_tests is not None:
        parts.append(fill("docker", "nccl-tests.j2", family=recipe.family, nccl_tests=recipe.nccl_tests))
    parts.append(
        fill(
            "docker", "environment.j2",
            environment=recipe.environment, python_path=python_path, inside=recipe.inside,
        )
    )  # fmt: skip
    parts += [
        fill(
            "docker", "edit.j2", module=edit.module, python_module=f'"{edit.module}"',
            expressions=[shlex.quote(expression) for expression in edit.expressions],
            versions="|".join(f"{minor}.*" for minor in edit.torch),
        )
        for edit in recipe.edits
    ]  # fmt: skip
    parts.append(fill("docker", "record.j2"))
    parts.append(
        fill(
            "docker", "library.j2", inside=recipe.inside,
            installed=[_installation(name) for name in recipe.installed],
            labels={name: _quoted(value) for name, value in recipe.labels.items()},
        )
    )  # fmt: skip
    return "".join(parts)


def _install(layer: Layer, family: Family) -> str:
    return fill(
        "docker", "install.j2", comment=layer.comment, family=family, unless=layer.unless[family],
        packages=" ".join(layer.packages[family]), then=layer.then.get(family, ()),
    )  # fmt: skip


def _installation(name: str) -> str:
    return f"rpm -Uhv {name}" if name.endswith(".rpm") else f"bash {name}"


def _quoted(value: str) -> str:
    # In double quotes a Dockerfile expands variables and removes backslashes.
    return re.sub(r'(["\\$])', r"\\\1", value)


def _check(recipe: Recipe) -> None:
    require_reference(recipe.base)
    for name in (*recipe.installed, *((recipe.nccl_tests,) if recipe.nccl_tests is not None else ())):
        if not _FILE_NAME.fullmatch(name):
            raise ArtifactError(
                f"file name {name!r} cannot be used in a Dockerfile",
                hint="rename the file: use only letters, digits and ._+~-",
            )
    for value in recipe.labels.values():
        if any(ord(character) < 32 for character in value):
            raise ArtifactError(f"label {value!r} must not contain control characters")
