"""Parse the variants of ``bench --compare``, measured interleaved: libraries and environment variables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.errors import ArtifactError, LaunchError, UsageError
from clusterctl.launch import choose
from clusterctl.launch.environment import Communication, Library, backend, variables
from clusterctl.text.secret.scrub import names_a_secret

# GDR: how far a NIC may be from a GPU for GPUDirect RDMA, as in Tencent Cloud's guide (0: never, 2: PXB).
_ALIASES = {"gdr": "NCCL_NET_GDR_LEVEL"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that the launch itself sets for every rank.
_OWN = re.compile(r"MASTER_(ADDR|PORT)|(LOCAL_)?(RANK|WORLD_SIZE)|CCORE_(ROOT_.*|JOB_SECRET)|CLUSTERCTL_.*")
# The libraries that may read the variables of a prefix: collective_core also reads names of other libraries.
_READERS: tuple[tuple[str, tuple[Library, ...]], ...] = (
    ("NCCL_", ("nccl", "horovod", "lightcc")), ("LIGHT_", ("lightcc", "ccore", "nccl")),
    ("HOROVOD_", ("horovod", "lightcc", "ccore", "nccl")), ("AIACC_", ("acspeed", "aiacc", "ccore", "nccl")),
    ("GLOO_", ("gloo",)), ("CCORE_", ("ccore",)), ("ACCL_", ("accl",)),
)  # fmt: skip
# Logging does not change figures.
_LOGGING = ("NCCL_DEBUG",)
# Variables without effect if all ranks run on one node.
_NETWORK = ("NCCL_NET", "NCCL_IB", "NCCL_SOCKET")
# Settings of collective_core that its NCCL-symbol library reads in front of NCCL.
_IN_FRONT = ("CCORE_",)
# LightCC's mechanisms by its documented variables, which collective_core also reads: its own all_reduce over all ranks,
# first within and then between nodes, and only the largest elements between nodes.
_MECHANISMS: dict[str, dict[str, str]] = {
    "plain": {"LIGHT_2D_ALLREDUCE": "0"},
    "2d": {"LIGHT_2D_ALLREDUCE": "1"},
    "topk": {"LIGHT_TOPK_ALLREDUCE": "1"},
}
_FORM = "for example nccl,ccore or plain,2d,topk or gdr=0,gdr=2 or nccl,nccl+NCCL_ALGO=Ring"


DEFAULT = "default"
"""The name of the variant without settings, which is the only one of a run without ``--compare``."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Hold one variant: its name as written, a library (None: the run's own), and variables set for every rank."""

    name: str
    library: Library | None = None
    environment: tuple[tuple[str, str], ...] = ()


def parse_variants(text: str, library: str | None = None) -> tuple[Variant, ...]:
    """Parse ``A,B,...``; each is a library, a mechanism, NAME=VALUE, several joined by ``+``, or ``default``.

    ``library`` is that of the run: without one, a mechanism that names no library is measured with collective_core.
    Raise UsageError for anything else, for a single variant, and for duplicates.
    """
    found = tuple(_variant(word.strip(), library) for word in text.split(","))
    if len(found) < 2:
        raise UsageError(f"--compare needs at least two variants, not {text!r} alone", hint=_FORM)
    meanings = [(variant.library, sorted(variant.environment)) for variant in found]
    for index, meaning in enumerate(meanings):
        if meaning in meanings[:index]:
            raise UsageError(f"--compare names {found[index].name!r} twice", hint="remove one of them")
    return found


def _variant(word: str, of_run: str | None) -> Variant:
    if word == DEFAULT:
        return Variant(word)
    library: Library | None = None
    environment: dict[str, str] = {}
    for term in word.split("+"):
        name, equals, value = term.partition("=")
        if term in _MECHANISMS:
            environment |= _MECHANISMS[term]
        elif equals:
            name = _ALIASES.get(name, name)
            _require_variable(name, value)
            environment[name] = value
        elif (joined := f"{library}+{term}" if library else term) in choose.LIBRARIES:
            library = choose.known_library(joined)
        else:
            raise UsageError(
                f"--compare: {term!r} is not a library ({', '.join(choose.LIBRARIES)}), a mechanism "
                f"({', '.join(_MECHANISMS)}) or NAME=VALUE",
                hint=_FORM,
            )
    if library is None and of_run is None and not _MECHANISMS.keys().isdisjoint(word.split("+")):
        library = "ccore"
    if library is not None:
        require_reader(library, environment)
    return Variant(word, library, tuple(environment.items()))


def _require_variable(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--compare: {name!r} is not a valid name of an environment variable", hint=_FORM)
    if _OWN.fullmatch(name):
        raise UsageError(
            f"--compare: {name} is set by the launch itself", hint="choose a variable of the library"
        )
    if names_a_secret(name, value):
        raise UsageError(
            f"--compare: {name} looks like a secret, but results show variants in clear text",
            hint="put secrets into `env` of the inventory",
        )
    if name == _ALIASES["gdr"]:
        try:
            variables(Communication(library="nccl", gdr_level=value))
        except ArtifactError as error:
            raise UsageError(f"--compare: {error.message}", hint=error.hint) from None


def require_reader(library: Library, environment: dict[str, str]) -> None:
    """Raise LaunchError if a variable belongs to another library, so that it would have no effect."""
    for name in environment:
        if name.startswith(_prefixes(library)):
            continue
        readers = next((readers for prefix, readers in _READERS if name.startswith(prefix)), (library,))
        if library not in readers:
            raise LaunchError(
                f"{name} is read by {readers[0]}, not by {library}: the variants would not differ",
                hint=f"add --library {readers[0]}"
                + (", which needs GPUs on every node" if readers[0] == "nccl" else ""),
            )


def tunes(name: str, library: Library) -> bool:
    """Tell whether this library reads a variable and its value may change figures."""
    own = _prefixes(library)
    return name.startswith(own) and not name.startswith(_LOGGING) and not _OWN.fullmatch(name)


def _prefixes(library: Library) -> tuple[str, ...]:
    own = tuple(prefix for prefix, readers in _READERS if {library, backend(library)} & {*readers})
    return (*own, *_IN_FRONT) if library == "nccl+ccore" else own


def without_effect(environment: dict[str, str], nodes: int) -> list[str]:
    """Return the variables without effect because all ranks run on one node."""
    return [name for name in environment if nodes == 1 and name.startswith(_NETWORK)]
