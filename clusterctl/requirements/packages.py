"""Where packages come from: the node's manager, a folder of the controller, or a vendor's signed repository."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from clusterctl.requirements import signing_key
from clusterctl.requirements.base import Command, InstallPackages, Step, WriteFile
from clusterctl.requirements.rendering import render

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

Manager = Literal["apt", "dnf"]

_APT_HELPER = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The OpenPGP key that signs a repository, known beforehand: nothing that a server says is trusted.

    Either its armored text is ``shipped`` (a file of ``templates/keys``), or it is fetched from ``url`` and
    thrown away unless its SHA-256 is the one given here, or where none is given, its fingerprint.
    """

    fingerprint: str
    sha256: str | None
    shipped: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A vendor's repository. ``name`` names its files; ``suite`` ``/`` is a flat apt repository.

    ``signs``: whether a dnf repository signs its packages (docker) or its metadata (NVIDIA's toolkit); an apt
    repository always signs its metadata.
    """

    name: str
    title: str
    url: str
    key: SigningKey
    suite: str = "/"
    components: tuple[str, ...] = ()
    signs: Literal["packages", "metadata"] = "packages"


def manager(facts: NodeFacts) -> Manager | None:
    """Return the node's package manager if it is one that clusterctl installs with."""
    if facts.software.manager == "apt":
        return "apt"
    return "dnf" if facts.software.manager == "dnf" else None


def by_hand(facts: NodeFacts, what: str) -> str:
    """Say what the operator must install where clusterctl cannot; empty where it can."""
    if manager(facts) is not None:
        return ""
    only = "; this node has yum without dnf" if facts.software.manager == "yum" else ""
    return f"; install {what} by hand (clusterctl knows apt and dnf{only})"


def kernel_headers(facts: NodeFacts) -> str | None:
    """Return the package with the running kernel's build files; None where the kernel or the manager is not known.

    The RHEL family's other kernels, ``5.14.0-427.el9.aarch64+64k``, and Oracle's own have packages of their own.
    """
    found, kernel = manager(facts), facts.system.kernel.value
    if found is None or kernel is None:
        return None
    if found == "apt":
        return f"linux-headers-{kernel}"
    release, _, variant = kernel.partition("+")
    kind = f"{variant}-" if variant else "uek-" if "uek." in kernel else ""
    return f"kernel-{kind}devel-{release}"


def install(facts: NodeFacts, node: Node, description: str, *names: str) -> InstallPackages | None:
    """Return the step that installs packages, or None where no known manager is (yum, zypper, apk, none).

    They come from the inventory's folder where it names one, else from the repositories that the node has.
    """
    found = manager(facts)
    if found is None or not names:
        return None
    return InstallPackages(description, found, names, node.requirements.packages.folder)


def through_mirror(node: Node, url: str) -> str:
    """Return the address by way of the inventory's mirror: the vendor's host is the mirror's first folder."""
    mirror = node.requirements.packages.mirror
    if mirror is None:
        return url
    place = urlsplit(url)
    return f"{mirror.rstrip('/')}/{place.netloc}{place.path}"


def repository(facts: NodeFacts, node: Node, wanted: Repository) -> tuple[Step, ...]:
    """Return the steps that add a repository and its key; none where packages are carried or it is there.

    One that the site configured itself is left alone: apt refuses a second entry with another key file.
    """
    found = manager(facts)
    if found is None or node.requirements.packages.folder is not None:
        return ()
    url = through_mirror(node, wanted.url)
    ours = f"/clusterctl-{wanted.name}."
    shared = url.partition("://")[2].partition("$")[0].rstrip("/")
    if any(shared in line.text and ours not in line.path for line in facts.software.repositories):
        return ()
    return _of_apt(node, wanted, url) if found == "apt" else _of_dnf(node, wanted, url)


def _of_apt(node: Node, wanted: Repository, url: str) -> tuple[Step, ...]:
    key = f"/usr/share/keyrings/clusterctl-{wanted.name}.asc"
    text = render(
        "apt",
        "repository.sources",
        title=wanted.title,
        url=url,
        suite=wanted.suite,
        components=" ".join(wanted.components),
        key=key,
    )
    path = f"/etc/apt/sources.list.d/clusterctl-{wanted.name}.sources"
    return (
        _key(node, wanted, key, "apt"),
        WriteFile(f"Add {wanted.title} to apt's sources", path, text),
    )


def _of_dnf(node: Node, wanted: Repository, url: str) -> tuple[Step, ...]:
    key = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-clusterctl-{wanted.name}"
    text = render(
        "dnf",
        "repository.repo",
        title=wanted.title,
        id=f"clusterctl-{wanted.name}",
        url=url,
        signs=wanted.signs,
        key=key,
    )
    path = f"/etc/yum.repos.d/clusterctl-{wanted.name}.repo"
    steps: list[Step] = [_key(node, wanted, key, "dnf")]
    if wanted.signs == "packages":
        steps.append(_trust(wanted, key))
    return (*steps, WriteFile(f"Add {wanted.title} to dnf's repositories", path, text))


def _key(node: Node, wanted: Repository, path: str, found: Manager) -> Step:
    key = wanted.key
    if key.shipped is not None:
        return WriteFile(
            f"Write the key {key.fingerprint} of {wanted.title}", path, render("keys", key.shipped)
        )
    assert key.url is not None, "a key is shipped or fetched"
    url = through_mirror(node, key.url)
    if key.sha256 is None:
        return signing_key.fetch(wanted.title, url, key.fingerprint, path)
    same = f"echo {shlex.quote(f'{key.sha256}  {path}')} | sha256sum -c --status"
    if found == "apt":
        # apt's own downloader knows its proxies, and keeps nothing whose hash differs.
        fetch = shlex.join((_APT_HELPER, "download-file", url, path, f"SHA256:{key.sha256}"))
    else:
        fetch = shlex.join(("curl", "-fsSL", "--max-time", "60", "-o", path, "--", url))
    return Command(
        f"Fetch the key {key.fingerprint} of {wanted.title} and compare its SHA-256",
        ("sh", "-c", f"{fetch} && {same} || {{ rm -f {shlex.quote(path)}; exit 1; }}"),
        undo=("rm", "-f", path),
        guard=("sh", "-c", same),
        timeout_s=120.0,
    )


def _trust(wanted: Repository, path: str) -> Command:
    """Let rpm know the key beforehand, so that undo can take it back; dnf would import it in passing."""
    short = f"gpg-pubkey-{wanted.key.fingerprint[-8:].lower()}"
    whole = wanted.key.fingerprint.lower()
    # Up to rpm 4 a key is a package that the last 8 digits name; rpm 6 lists keys by whole fingerprint.
    known = f"rpm -q {short} || rpm -q gpg-pubkey-{whole} || rpmkeys --list {whole}"
    return Command(
        f"Let rpm trust the key {wanted.key.fingerprint} of {wanted.title}",
        ("rpm", "--import", path),
        undo=("sh", "-c", f"rpm -e --allmatches {short} || rpmkeys --delete {whole} || ! {{ {known}; }}"),
        guard=("sh", "-c", known),
        timeout_s=120.0,
    )
