"""Build the steps that compile a kernel module from a source tree, load it, and load it at each boot."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from clusterctl.requirements.packages import kernel_headers, manager
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Command, InstallPackages, LoadModule, PutTree, Step, WriteFile

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.requirement_settings import PeermemSettings


def load_at_boot(module: str) -> WriteFile:
    """Return the step that makes systemd-modules-load load a module at boot."""
    path = f"/etc/modules-load.d/clusterctl-{module}.conf"
    return WriteFile(
        f"Load {module} at boot ({path})", path, f"# Written by clusterctl (requirement peermem).\n{module}\n"
    )


def load_after_ofed(facts: NodeFacts, module: str) -> tuple[WriteFile, ...]:
    """Return the step that loads a module again after openibd, which restarts the RDMA stack.

    The out-of-tree stack's service replaces ib_core late in boot and may unload modules that were loaded before.
    """
    unit = facts.services.unit("openibd.service")
    if unit is None or unit.enabled != "enabled":
        return ()
    path = f"/etc/systemd/system/openibd.service.d/clusterctl-{module}.conf"
    text = (
        f"# Written by clusterctl (requirement peermem).\n[Service]\nExecStartPost=-/sbin/modprobe {module}\n"
    )
    return (WriteFile(f"Load {module} after openibd as well", path, text),)


def missing_tools(facts: NodeFacts, settings: PeermemSettings) -> tuple[str, ...]:
    """Return what a build needs and the node lacks: ``make``, ``gcc``, the running kernel's ``headers``.

    A source that is fetched needs ``git`` and, where the node's repositories have it, ``dkms``.
    """
    wanted = ("make", "gcc")
    if settings.source is None:
        has_dkms = manager(facts) == "apt" or facts.software.has_repository("epel")
        wanted += ("git", *(("dkms",) if has_dkms else ()))
    tools = tuple(tool for tool in wanted if facts.software.tool(tool) is None)
    return tools if facts.modules.headers.value is not None else (*tools, "headers")


def packages_for(facts: NodeFacts, missing: tuple[str, ...]) -> InstallPackages | None:
    """Return the step that installs what is missing; None when the package manager or the kernel is unknown."""
    found, headers = manager(facts), kernel_headers(facts)
    if found is None or headers is None:
        return None
    names = tuple(headers if name == "headers" else name for name in missing)
    return InstallPackages(f"Install {' '.join(names)}", found, names)


def bring(module: str, settings: PeermemSettings, tree: str) -> Step:
    """Return the step that brings the source to a directory: from the controller, or by git on the node."""
    if settings.source is not None:
        return PutTree(f"Copy the source of {module} to {tree}", settings.source, tree)
    assert settings.git is not None, "the inventory names a source"
    url, _, reference = settings.git.rpartition("#")
    script, words = render("apply", "fetch-source.sh"), (url, reference, tree)
    return Command(
        f"Fetch {reference} of {url} to {tree}",
        ("sh", "-c", script, "fetch-source", "fetch", *words),
        undo=("rm", "-rf", tree),
        guard=("sh", "-c", script, "fetch-source", "check", *words),
        timeout_s=600.0,
    )


def build_and_install(module: str, settings: PeermemSettings, kernel: str) -> tuple[Step, ...]:
    """Return the steps that build a source tree and install its module for one kernel.

    The tree's Makefile must build ``<module>.ko`` with ``make`` for the kernel named by KVER and KDIR, like
    the Makefile of nv_peer_memory.
    """
    tree = f"/usr/src/clusterctl-{module}"
    build = f"/lib/modules/{kernel}/build"
    installed = f"/lib/modules/{kernel}/extra/{module}.ko"
    make = ("make", "-C", tree, f"KVER={kernel}", f"KDIR={build}", f"KERNEL_SRC={build}")
    find = f"find {tree} -name {module}.ko -print | head -n 1"
    install = (
        f'built=$({find}) && [ -n "$built" ] && install -D -m 644 "$built" {shlex.quote(installed)} '
        f"&& depmod {shlex.quote(kernel)}"
    )
    folder = shlex.quote(f"/lib/modules/{kernel}/extra")
    remove = (
        f"rm -f {shlex.quote(installed)} && {{ rmdir {folder} 2>/dev/null; depmod {shlex.quote(kernel)}; }}"
    )
    compare = f'cmp -s "$({find})" {shlex.quote(installed)} && modprobe -n -q {module}'
    return (
        bring(module, settings, tree),
        Command(f"Build {module} for kernel {kernel}", make, None, timeout_s=1500),
        Command(
            f"Install {module} as {installed}",
            ("sh", "-c", install),
            ("sh", "-c", remove),
            guard=("sh", "-c", compare),
            timeout_s=600,
        ),
    )


DKMS_VERSION = "1.0"
"""The version under which a tree is added to DKMS, because the tree's own version is not known in advance."""


def _dkms_conf(name: str, module: str) -> str:
    build = "/lib/modules/$kernelver/build"
    return (
        "# Written by clusterctl (requirement peermem).\n"
        f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{DKMS_VERSION}"\n'
        f'BUILT_MODULE_NAME[0]="{module}"\nDEST_MODULE_LOCATION[0]="/updates/dkms"\n'
        f'MAKE[0]="make KVER=$kernelver KDIR={build} KERNEL_SRC={build}"\n'
        'CLEAN="make clean"\nAUTOINSTALL="yes"\n'
    )


def build_by_dkms(module: str, settings: PeermemSettings, kernel: str) -> tuple[Step, ...]:
    """Return the steps that add a source tree to DKMS, which builds it now and for each later kernel."""
    name = f"clusterctl-{module}"
    tree = f"/usr/src/{name}-{DKMS_VERSION}"
    which = ("-m", name, "-v", DKMS_VERSION)
    status = shlex.join(("dkms", "status", *which))
    return (
        bring(module, settings, tree),
        WriteFile(f"Write the DKMS configuration of {module}", f"{tree}/dkms.conf", _dkms_conf(name, module)),
        Command(
            f"Add {module} to DKMS",
            ("dkms", "add", *which),
            ("sh", "-c", f"! {status} | grep -q . || {shlex.join(('dkms', 'remove', *which, '--all'))}"),
            guard=("sh", "-c", f"{status} | grep -q ."),
        ),
        Command(
            f"Build and install {module} for kernel {kernel} with DKMS",
            ("dkms", "install", *which, "-k", kernel),
            None,
            guard=("sh", "-c", f"{status} -k {shlex.quote(kernel)} | grep -q installed"),
            timeout_s=1500,
        ),
    )


def load(module: str) -> LoadModule:
    """Return the step that loads a module now."""
    return LoadModule(f"Load {module}", module)
