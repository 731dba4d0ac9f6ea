"""A lab's life: up, down and status."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from clusterctl.documents.lab import Driver, GuestSize, LabNode
from clusterctl.errors import LabError, UsageError
from clusterctl.lab import (
    containers,
    host,
    node_engine,
    node_files,
    power,
    processes,
    python_mounts,
    qemu,
    rootfs,
)
from clusterctl.lab.model import DEFAULT_DIRECTORY, Lab, LabStatus, load, save
from clusterctl.lab.node_files import KeyPair
from clusterctl.lab.python_mounts import BindMount

MAX_NODES = 16


@dataclass(frozen=True, slots=True)
class LabOptions:
    """Options of a lab. ``vcpus`` None: two per guest if this machine has as many, else one."""

    driver: Driver = "qemu"
    nodes: int = 2
    directory: Path = DEFAULT_DIRECTORY
    mounts: tuple[BindMount, ...] = ()
    with_python: bool = False
    memory_mib: int = 1280
    vcpus: int | None = None
    ssh_timeout_s: float = power.SSH_TIMEOUT_S
    bare: bool = False
    """Start guests as an installer leaves them; ``bootstrap`` adds the packages of the inventory."""
    engines: bool = False
    """Give each container its own docker engine, with its own images and containers."""


def up(options: LabOptions) -> Lab:
    """Build missing images, start the nodes and wait until SSH answers; a failure removes everything."""
    directory = options.directory.absolute()
    _refuse_early(options, directory)
    image = rootfs.ensure()

    made_directory = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    vcpus = options.vcpus or (2 if cores >= 2 * options.nodes else 1)
    accelerator = qemu.choose_accelerator(image) if options.driver == "qemu" else "tcg"
    size = GuestSize(options.memory_mib, vcpus, accelerator)
    python = sys.executable if options.with_python else None
    mounts = (*options.mounts, *(python_mounts.for_this_python() if options.with_python else ()))
    lab = Lab(secrets.token_hex(4), directory, options.driver, image.key, size, (), python, mounts)
    try:
        lab.nodes_folder.mkdir()
    except FileExistsError:
        raise LabError(f"another lab is being started in {directory}", hint="wait for it") from None
    try:
        # Recorded before anything starts, so that `down` also finds the nodes of a killed `up`.
        save(lab)
        nodes = _start_guests(lab, options, image) if lab.driver == "qemu" else ()
        if lab.driver == "docker":
            nodes = _start_containers(lab, options, image)
        lab = replace(lab, nodes=nodes)
        save(lab)
        for node in lab.nodes:
            power.wait_ssh(lab, node.name, timeout_s=options.ssh_timeout_s)
        text = node_files.inventory_text(
            lab.driver, lab.nodes, lab.identity_file, lab.known_hosts_path, lab.python,
            image.packages if options.bare else None,
            container=node_engine.CONTAINER_SETTINGS if options.engines else None,
        )  # fmt: skip
        lab.inventory_path.write_text(text, encoding="utf-8")
        config = node_files.ssh_config_text(lab.nodes, lab.identity_file, lab.known_hosts_path)
        lab.ssh_config_path.write_text(config, encoding="utf-8")
    except BaseException:
        _remove(lab)
        if made_directory:
            directory.rmdir()
        raise
    return lab


def _refuse_early(options: LabOptions, directory: Path) -> None:
    if not 1 <= options.nodes <= MAX_NODES:
        raise UsageError(f"a lab has 1 to {MAX_NODES} nodes, not {options.nodes}")
    if options.driver == "qemu" and options.engines:
        raise UsageError("guests have an engine of their own already", hint="leave --engines out")
    if options.driver == "docker" and options.bare:
        raise UsageError(
            "containers have no engine and no kernel of their own", hint="bare nodes need --driver qemu"
        )
    if options.driver == "qemu" and options.with_python:
        raise UsageError(
            "--with-python needs --driver docker", hint="name the directories of this Python with --mount"
        )
    files = [mount.source for mount in options.mounts if not Path(mount.source).is_dir()]
    if options.driver == "qemu" and files:
        raise UsageError(
            f"--mount {files[0]} must be a directory with --driver qemu", hint="mount its directory"
        )
    if options.driver == "qemu" and len(options.mounts) > qemu.MOST_MOUNTS:
        raise UsageError(
            f"guests have {qemu.MOST_MOUNTS} mounts at most, not {len(options.mounts)}",
            hint="mount a directory above them",
        )
    there = next(folder for folder in (directory, *directory.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise LabError(
            f"cannot create a lab in {directory}: {there} is not a writable directory",
            hint="name another with --dir",
        )
    if load(directory) is not None:
        raise LabError(
            f"there is a lab in {directory} already", hint=f"clusterctl lab down --dir {directory}"
        )
    if directory.exists() and any(directory.iterdir()):
        raise LabError(f"{directory} is not empty", hint="name a new directory with --dir")
    host.require_tools(host.RUN_TOOLS[options.driver], f"the lab's {options.driver} driver")
    if options.driver == "docker":
        with containers.engine():
            pass


def _make_keys(lab: Lab, nodes: tuple[LabNode, ...]) -> tuple[KeyPair, tuple[KeyPair, ...]]:
    """Generate the login key and a host key per node; write the known_hosts file of this machine's side."""
    login = node_files.make_key_pair(lab.identity_file, f"clusterctl-lab-{lab.lab_id}")
    host_keys = []
    for node in nodes:
        folder = lab.node_folder(node.name)
        folder.mkdir()
        host_keys.append(node_files.make_key_pair(folder / "ssh_host_ed25519_key", node.name))
    known = node_files.known_hosts_from_outside(nodes, host_keys)
    lab.known_hosts_path.write_text(known, encoding="ascii")
    return login, tuple(host_keys)


def _start_guests(lab: Lab, options: LabOptions, image: rootfs.Image) -> tuple[LabNode, ...]:
    nodes = qemu.plan_nodes(options.nodes)
    login, host_keys = _make_keys(lab, nodes)
    started = []
    for index, node in enumerate(nodes):
        files = (
            *node_files.ssh_files(nodes, host_keys, index, login, bare=options.bare),
            *node_files.identity_files(nodes, index),
            *qemu.network_files(lab.lab_id, node),
            *qemu.mount_files(lab.mounts),
        )
        qemu.prepare(lab, node, image, node_files.to_tar(files), bare=options.bare)
        started.append(qemu.start(lab, node))
    return tuple(started)


def _start_containers(lab: Lab, options: LabOptions, image: rootfs.Image) -> tuple[LabNode, ...]:
    with containers.engine() as client:
        image_name = containers.ensure_image(client, image)
        nodes = containers.plan_nodes(client, lab.lab_id, options.nodes)
        containers.create_network(client, lab.lab_id, nodes)
        login, host_keys = _make_keys(lab, nodes)
        started = []
        own_engine = node_engine.programs(image) if options.engines else None
        for index, node in enumerate(nodes):
            files = (
                *node_files.ssh_files(nodes, host_keys, index, login),
                node_files.machine_id(),
                *containers.extra_files(),
                *(node_engine.files() if options.engines else ()),
            )
            made = containers.create(
                client, lab.lab_id, node, peers=nodes, image=image_name, mounts=lab.mounts,
                node_tar=node_files.to_tar(files), own_engine=own_engine,
            )  # fmt: skip
            containers.start(client, made)
            if lab.python is not None:
                containers.prove_python(client, made, lab.python)
            started.append(made)
        if options.engines:
            for node in started:
                containers.wait_engine(client, node)
        return tuple(started)


def down(directory: Path = DEFAULT_DIRECTORY, *, purge_cache: bool = False) -> bool:
    """Remove a lab and everything that it created; return whether there was one. The cache stays unless purged."""
    lab = load(directory)
    if lab is not None:
        _remove(lab)
        if not any(lab.directory.iterdir()):
            lab.directory.rmdir()
    if purge_cache:
        rootfs.purge()
        containers.purge_images()
    return lab is not None


def _remove(lab: Lab) -> None:
    if lab.driver == "qemu":
        # Repeated, because QEMU forks while a guest starts.
        while guests := qemu.find_guests(lab.lab_id):
            for process in guests:
                processes.end(process, grace_s=5.0)
    else:
        with containers.engine() as client:
            containers.remove(client, lab.lab_id)
    if lab.nodes_folder.exists():
        shutil.rmtree(lab.nodes_folder)
    public_key = lab.identity_file.with_suffix(".pub")
    partial = lab.state_path.with_suffix(".partial")
    # The record is removed last, so that `down` can be repeated until then.
    written = (lab.inventory_path, lab.known_hosts_path, lab.ssh_config_path, lab.identity_file, public_key)
    for path in (*written, partial, lab.state_path):
        path.unlink(missing_ok=True)


def status(directory: Path = DEFAULT_DIRECTORY) -> LabStatus:
    """Report which nodes of the lab in a directory run, and whether SSH answers on them."""
    lab = load(directory)
    return LabStatus(directory.absolute(), None, ()) if lab is None else power.node_states(lab)
