"""The lab's fixtures: two QEMU guests (``qemu_lab``) and two containers (``docker_lab``), once per run.

``bare_lab`` is two more guests, for one module: they have no docker, no RDMA userspace, no keys of each other, and
their inventory names the directory of packages that they can be completed with. ``three_guests`` is three small
guests, for one module.

All give a ``LabSession``:

* ``session.lab``: the ``clusterctl.lab.Lab`` (``nodes``, ``inventory_path``, ``known_hosts_path``,
  ``identity_file``, ``directory``). Nodes are ``node1`` and ``node2``, each with ``name``, ``address``,
  ``port``, ``user``, ``fabric_address`` and ``fabric_interface`` (the network between the nodes). It is
  always the current record: after ``kill`` and ``start`` it has the new process ids.
* ``session.run(name, command, timeout_s=120, check=True)``: one shell command line on a node through OpenSSH,
  as root; returns the ``subprocess.CompletedProcess[str]``. With ``check``, a status other than 0 fails the
  test with both outputs. ``session.output(name, command)`` is its stripped stdout.
  ``session.ssh_argv(name, command)`` is the argv of both.
* ``session.kill(name)``: power loss of a node. ``session.start(name)``: boot it again with the same disk, and
  wait for SSH. ``session.reboot(name)``: a clean reboot from inside; waits until the new boot answers.

The QEMU guests have Debian 12, root by key, a user ``lab`` (same key) with sudo without password, mutual SSH
by node name and fabric address, and this PCI layout: root ports 00:10.0 (behind it the "GPU", 01:00.0,
vendor:device 1234:11e8), 00:11.0 (the "NIC", 02:00.0, 8086:10d3, interface ``fabric0`` with the RDMA device
``rxe0``), 00:12.0 (a device of neither kind) and 00:13.0 (empty). The inventory selects GPU and NIC so.

The two guests of ``qemu_lab`` see the directories of this process's Python environment at their own paths, read-only;
an interpreter in ``/usr/bin`` is missing there, because its directory is the guest's own.

In the containers this process's Python environment and the checkout are mounted read-only at their own paths:
``sys.executable`` is a python there with everything that is installed here (``lab.python``, and ``python`` in
the inventory).

Tests that break a node must repair it (``start``) before they end: all tests of this directory share the nodes. They
are taken down after the last of these tests, because a worker may have others after it.
What is missing on this machine skips the tests with the reason; with ``CI=true`` it fails them.
Tests that use these fixtures are marked ``lab`` by themselves, and may take 20 minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import built_images
import pytest

from clusterctl import lab as labs
from clusterctl.errors import LabError
from clusterctl.lab import BindMount, Lab, LabOptions, containers, host, python_mounts

GUESTS = {"qemu_lab", "bare_lab", "three_guests"}
LAB_FIXTURES = {*GUESTS, "docker_lab", "docker_engine"}
LAB_TEST_TIMEOUT_S = 1200
REBOOT_TIMEOUT_S = 600.0
HERE = Path(__file__).parent
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_shared = ExitStack()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a lab, and give them time for guests that are slow without KVM.

    Guests come last of this directory: without KVM two idle ones slow everything else.
    """
    places = [number for number, item in enumerate(items) if item.path.is_relative_to(HERE)]
    here = sorted((items[number] for number in places), key=lambda item: bool(GUESTS & _fixtures(item)))
    for number, item in zip(places, here, strict=True):
        items[number] = item
        if LAB_FIXTURES & _fixtures(item):
            item.add_marker(pytest.mark.lab)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LAB_TEST_TIMEOUT_S))


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Take down what the tests of this directory share, after the last of them."""
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        _shared.close()


def pytest_sessionfinish() -> None:
    """Leave nothing behind a session that ends early."""
    _shared.close()


@dataclass
class LabSession:
    """A lab that is up, and the hands to work on its nodes."""

    lab: Lab
    sockets: Path | None = None
    """A directory for connections that commands share: without KVM each login takes a guest seconds."""

    def ssh_argv(self, name: str, command: str) -> tuple[str, ...]:
        """Return the argv that runs a command line on a node as root, over the node's open connection if it has one.

        A power cut or a reboot closes that connection, and the next command makes another.
        """
        program, *words = self.lab.ssh_argv(name, command)
        if self.sockets is None:
            return program, *words
        shared = ("ControlMaster=auto", f"ControlPath={self.sockets / name}", "ControlPersist=600")
        return (program, *(word for option in shared for word in ("-o", option)), *words)

    def run(
        self, name: str, command: str, timeout_s: float = 120.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command line on a node, as root."""
        argv = self.ssh_argv(name, command)
        done = subprocess.run(
            argv, capture_output=True, check=False, stdin=subprocess.DEVNULL, text=True, timeout=timeout_s
        )
        if check and done.returncode != 0:
            pytest.fail(f"{name}: exit {done.returncode} from {command!r}\n{done.stdout}\n{done.stderr}")
        return done

    def output(self, name: str, command: str, timeout_s: float = 120.0) -> str:
        """Return what a command line that must succeed writes to stdout."""
        return self.run(name, command, timeout_s).stdout.strip()

    def kill(self, name: str) -> None:
        """Cut a node's power."""
        self.lab = labs.kill(self.lab, name)

    def start(self, name: str) -> None:
        """Switch a node on, with the disk it had, and wait for SSH; a node that runs is left alone."""
        self.lab = labs.start(self.lab, name)

    def reboot(self, name: str) -> None:
        """Reboot a node from inside and wait until the new boot answers SSH."""
        before = self.output(name, BOOT_ID)
        self.run(name, "systemctl reboot", check=False)
        deadline = time.monotonic() + REBOOT_TIMEOUT_S
        while time.monotonic() < deadline:
            time.sleep(1)
            labs.wait_ssh(self.lab, name, timeout_s=REBOOT_TIMEOUT_S)
            done = self.run(name, BOOT_ID, check=False)
            if done.returncode == 0 and done.stdout.strip() != before:
                return
        pytest.fail(f"{name} did not reboot within {REBOOT_TIMEOUT_S:.0f} s")


def missing(reason: str) -> NoReturn:
    """Skip with the reason; in CI, where everything has to be there, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the lab cannot run: {reason}")
    pytest.skip(f"the lab cannot run: {reason}")


def need(driver: labs.Driver) -> None:
    """Skip or fail unless this machine can build and run a lab with that driver."""
    if os.geteuid() != 0:
        missing("it needs root")
    try:
        host.require_tools(host.RUN_TOOLS[driver], f"the {driver} driver")
        host.require_build_host()
    except LabError as error:
        missing(f"{error} ({error.hint})")


@pytest.fixture(scope="session")
def shared() -> Iterator[ExitStack]:
    """What takes down the labs of all tests; where a failed test gets a second try (``run_again``), before that one."""
    yield _shared
    _shared.close()


@pytest.fixture(scope="session")
def core_wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """collective_core's wheel in two versions that differ in nothing else."""
    first, second = built_images.two_wheels(tmp_path_factory)
    return first, second


@pytest.fixture(scope="session")
def docker_engine(shared: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A docker engine that answers: this machine's own, or one started for these tests and ended after them."""
    if os.geteuid() != 0:
        missing("it needs root")
    if _engine_answers():
        return
    dockerd = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if dockerd is None:
        missing("no docker engine answers and there is no dockerd (apt-get install docker.io iptables)")
    log_path = tmp_path_factory.mktemp("dockerd") / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen((dockerd,), stdout=log, stderr=log)
    shared.callback(_end, process)
    deadline = time.monotonic() + 90
    while not _engine_answers():
        if process.poll() is not None or time.monotonic() > deadline:
            missing(f"dockerd does not start:\n{log_path.read_text(errors='replace')[-2000:]}")
        time.sleep(0.5)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _engine_answers() -> bool:
    try:
        with containers.engine() as client:
            return bool(client.ping())
    except LabError:
        return False


@pytest.fixture(scope="session")
def qemu_lab(shared: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> LabSession:
    """Two guests with PCIe root ports, Soft-RoCE and a kernel of their own."""
    need("qemu")
    # The path of a socket has room for 107 bytes, fewer than a path of pytest's may have.
    sockets = Path(shared.enter_context(tempfile.TemporaryDirectory(prefix="lab-ssh-")))
    folders = tuple(mount for mount in python_mounts.for_this_python() if Path(mount.source).is_dir())
    options = LabOptions(
        driver="qemu", nodes=2, directory=tmp_path_factory.mktemp("qemu") / "lab", mounts=folders
    )
    return _up(options, shared, sockets)


def _up(options: LabOptions, shared: ExitStack, sockets: Path | None = None) -> LabSession:
    session = LabSession(labs.up(options), sockets)
    shared.callback(labs.down, options.directory)
    return session


@pytest.fixture(scope="module")
def bare_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSession]:
    """Two guests as an installer leaves them."""
    need("qemu")
    folder = tmp_path_factory.mktemp("bare") / "lab"
    session = LabSession(labs.up(LabOptions(driver="qemu", nodes=2, directory=folder, bare=True)))
    try:
        yield session
    finally:
        labs.down(folder)


@pytest.fixture(scope="module")
def three_guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSession]:
    """Three small guests: the fewest among which one can be named."""
    need("qemu")
    folder = tmp_path_factory.mktemp("three") / "lab"
    options = LabOptions(driver="qemu", nodes=3, directory=folder, memory_mib=384, vcpus=1)
    session = LabSession(labs.up(options))
    try:
        yield session
    finally:
        labs.down(folder)


@pytest.fixture(scope="session")
def docker_lab(
    docker_engine: None, shared: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> LabSession:
    """Two containers with SSH and Open MPI, and with this Python environment inside."""
    need("docker")
    checkout = str(Path(__file__).resolve().parents[2])
    options = LabOptions(
        driver="docker",
        nodes=2,
        directory=tmp_path_factory.mktemp("docker") / "lab",
        mounts=(BindMount(checkout, checkout, read_only=True),),
        with_python=True,
    )
    return _up(options, shared)
