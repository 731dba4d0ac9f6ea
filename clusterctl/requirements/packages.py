"""Install packages with the node's manager, from a directory of the controller or a vendor's signed repository."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from clusterctl.facts.vendors import tables
from clusterctl.requirements import signing_key
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Command, InstallPackages, Step, WriteFile

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

Manager = Literal["apt", "dnf"]

_APT_HELPER = "/usr/lib/apt/apt-helper"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The OpenPGP key that signs a repository; it is known in advance, so no server has to be trusted.

    Either its armored text is ``shipped`` (a file of ``templates/keys``), or it is fetched from ``url``. A fetched
    key must match ``sha256``, or its fingerprint if there is no ``sha256``; otherwise it is deleted.
    """

    fingerprint: str
    sha256: str | None
    shipped: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A vendor's repository. ``name`` is part of its file names; ``suite`` ``/`` means a flat apt repository.

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


def refused(facts: NodeFacts) -> str:
    """Return why nothing is installed on the node's distribution, whatever its manager; empty if it is supported.

    CentOS 7 may have dnf from EPEL.
    """
    system = facts.system.os.value
    ended = None if system is None else tables.ended(system.id, system.version_id)
    if system is None or ended is None:
        return ""
    return f"clusterctl installs nothing on {system.pretty_name}, whose support ended on {ended:%Y-%m-%d}"


def manager(facts: NodeFacts) -> Manager | None:
    """Return the node's package manager if clusterctl supports it."""
    if refused(facts):
        return None
    if facts.software.manager == "apt":
        return "apt"
    return "dnf" if facts.software.manager == "dnf" else None


def by_hand(facts: NodeFacts, what: str) -> str:
    """Return what the operator must install by hand; empty when clusterctl can install it."""
    if manager(facts) is not None:
        return ""
    if why := refused(facts):
        return f"; install {what} by hand ({why})"
    only = "; this node has yum without dnf" if facts.software.manager == "yum" else ""
    return f"; install {what} by hand (clusterctl supports apt and dnf{only})"


def kernel_headers(facts: NodeFacts) -> str | None:
    """Return the package with the running kernel's build files; None when the kernel or the manager is unknown.

    Variants of the RHEL family's kernel (``5.14.0-427.el9.aarch64+64k``) and Oracle's kernel have separate packages.
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
    """Return the step that installs packages; None without a supported manager (yum, zypper, apk, none).

    They come from the directory that the inventory names, or else from the node's repositories.
    """
    found = manager(facts)
    if found is None or not names:
        return None
    return InstallPackages(description, found, names, node.requirements.packages.folder)


def through_mirror(node: Node, url: str) -> str:
    """Return the address on the inventory's mirror, whose first path component is the vendor's host name."""
    mirror = node.requirements.packages.mirror
    if mirror is None:
        return url
    place = urlsplit(url)
    return f"{mirror.rstrip('/')}/{place.netloc}{place.path}"


def repository(facts: NodeFacts, node: Node, wanted: Repository) -> tuple[Step, ...]:
    """Return the steps that add a repository and its key.

    The result is empty when the inventory names a directory of packages, or when the site has configured the repository
    itself: apt refuses a second entry with another key file.
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
    assert key.url is not None, "a key must be shipped or have a URL"
    url = through_mirror(node, key.url)
    if key.sha256 is None:
        return signing_key.fetch(wanted.title, url, key.fingerprint, path)
    same = f"echo {shlex.quote(f'{key.sha256}  {path}')} | sha256sum -c --status"
    if found == "apt":
        # apt's own downloader uses its proxy settings and discards a file whose hash differs.
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
    """Return the step that imports the key into rpm, so that undo can remove it; dnf would import it unrecorded."""
    short = f"gpg-pubkey-{wanted.key.fingerprint[-8:].lower()}"
    whole = wanted.key.fingerprint.lower()
    # Up to rpm 4 a key is a package named by the last 8 digits; rpm 6 lists keys by full fingerprint.
    known = f"rpm -q {short} || rpm -q gpg-pubkey-{whole} || rpmkeys --list {whole}"
    return Command(
        f"Import the key {wanted.key.fingerprint} of {wanted.title} into rpm",
        ("rpm", "--import", path),
        undo=("sh", "-c", f"rpm -e --allmatches {short} || rpmkeys --delete {whole} || ! {{ {known}; }}"),
        guard=("sh", "-c", known),
        timeout_s=120.0,
    )
