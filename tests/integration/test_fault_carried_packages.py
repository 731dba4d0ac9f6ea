"""Packages that the controller carries: real apt and dpkg install them from the directory alone, and undo purges them.

The node's package database, /opt and apt's directories are overlays in the node's mount namespace: this machine
keeps what it has.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import fault_nodes
import pytest
from fault_nodes import Wanted
from listening import wait_until

from clusterctl.apply import bootstrap, carry
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.errors import CommandError, PlanError
from clusterctl.inventory import load
from clusterctl.inventory.model import Node
from clusterctl.requirements.steps import Command, InstallPackages
from clusterctl.rundir import RunDir
from clusterctl.transport.connect import Connector

OVERLAYS = """
mount -t tmpfs tmpfs "$1/over" 2>/dev/null || { mkdir "$1/over"; mount -t tmpfs tmpfs "$1/over"; }
for place in /var/lib/dpkg /var/lib/apt /var/cache/apt /var/log /opt; do
  name=$(echo "$place" | tr / _)
  mkdir -p "$1/over/$name/upper" "$1/over/$name/work"
  mount -t overlay overlay -o "lowerdir=$place,upperdir=$1/over/$name/upper,workdir=$1/over/$name/work" "$place"
done
"""


def _deb(folder: Path, name: str, depends: str = "", postinst: str = "") -> Path:
    tree = folder / f"tree-{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / f"opt/{name}").mkdir(parents=True)
    (tree / f"opt/{name}/file").write_text(f"{name}\n")
    control = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: a test <a@example.org>\n"
    control += (f"Depends: {depends}\n" if depends else "") + f"Description: {name}\n more of it\n"
    (tree / "DEBIAN/control").write_text(control)
    if postinst:
        (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{postinst}\n")
        (tree / "DEBIAN/postinst").chmod(0o755)
    path = folder / f"{name}_1.0_all.deb"
    subprocess.run(
        ("dpkg-deb", "--root-owner-group", "-b", str(tree), str(path)), check=True, capture_output=True
    )
    shutil.rmtree(tree)
    return path


def _sums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(folder.glob("*.deb"))
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


@pytest.fixture
def packages(tmp_path, tier_unavailable):
    """A directory with a package, what it needs, and one that no requirement asks for."""
    for program in ("dpkg-deb", "apt-get"):
        if shutil.which(program) is None:
            tier_unavailable(f"{program} is missing: this is no Debian")
    folder = tmp_path / "packages"
    folder.mkdir()
    _deb(folder, "clusterctl-test-tool", "clusterctl-test-library (>= 1.0)")
    _deb(folder, "clusterctl-test-library")
    _deb(folder, "clusterctl-test-other")
    _sums(folder)
    return folder


@pytest.fixture
def node(sshd_farm, tmp_path, monkeypatch):
    farm = sshd_farm(1)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    (made,) = fault_nodes.enter(farm, tmp_path / "nodes", OVERLAYS)
    return made, load.load(farm.inventory(tmp_path))


def _look(node, inventory, script):
    """What a script says in the node's namespace."""
    engine = fault_nodes.engine([node], Wanted(()), names=())
    transport = engine.connect(inventory.nodes[0])
    try:
        return transport.run(("sh", "-c", script)).text
    finally:
        transport.close()


INSTALLED = "dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' 'clusterctl-test-*' 2>/dev/null; ls /opt"


def test_apt_installs_from_the_folder_alone_and_undo_purges_it_all(node, packages, tmp_path):
    made, inventory = node
    before = _look(made, inventory, INSTALLED)
    step = InstallPackages("install", "apt", ("clusterctl-test-tool",), str(packages))
    proof = Command("proof", ("sh", "-c", f"echo >{made.root}/proof"), ("rm", "-f", f"{made.root}/proof"))
    engine = fault_nodes.engine([made], Wanted((step, proof)), names=("proof",))
    run = RunDir.create("bootstrap", tmp_path / "runs")
    result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    assert [(s.status.value, s.reason) for s in result.outcomes["node01"].steps] == [("changed", "")] * 2
    after = _look(made, inventory, INSTALLED)
    assert "clusterctl-test-tool ii" in after
    assert "clusterctl-test-library ii" in after
    assert "clusterctl-test-other" not in after
    assert not (made.state / "carried").exists()
    work = Undo(engine.connect, 1, 120, "tester@here", run.id, False, engine.state_dir)
    undone = work.execute(inventory.nodes, {"node01": run.id})["node01"]
    assert [(s.status.value, s.reason) for s in undone.steps] == [("changed", "")] * 2
    assert _look(made, inventory, INSTALLED) == before


def test_a_package_that_is_there_and_held_counts_as_installed_and_stays(node, packages, tmp_path):
    made, inventory = node
    library = packages / "clusterctl-test-library_1.0_all.deb"
    hold = "echo clusterctl-test-library hold | dpkg --set-selections"
    _look(made, inventory, f"dpkg -i {library} >/dev/null && {hold}")
    before = _look(made, inventory, INSTALLED)
    assert "clusterctl-test-library hi" in before
    both = InstallPackages(
        "install", "apt", ("clusterctl-test-tool", "clusterctl-test-library"), str(packages)
    )
    engine = fault_nodes.engine([made], Wanted((both,)), names=("proof",))
    run = RunDir.create("bootstrap", tmp_path / "runs")
    result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    assert [(s.status.value, s.reason) for s in result.outcomes["node01"].steps] == [("changed", "")]
    work = Undo(engine.connect, 1, 120, "tester@here", run.id, False, engine.state_dir)
    undone = work.execute(inventory.nodes, {"node01": run.id})["node01"]
    assert [(s.status.value, s.reason) for s in undone.steps] == [("changed", "")]
    assert _look(made, inventory, INSTALLED) == before


def test_an_apt_at_work_is_waited_for_and_named_and_its_packages_stay(node, packages, tmp_path):
    """The lock is held by a real apt-get, in the middle of a package's own script."""
    made, inventory = node
    began, may_end = made.folder / "began", made.folder / "may-end"
    script = f"touch {began}; for i in $(seq 1200); do [ -e {may_end} ] && exit 0; sleep 0.1; done; exit 1"
    slow = _deb(tmp_path, "clusterctl-test-slow", postinst=script)
    step = InstallPackages("install", "apt", ("clusterctl-test-library",), str(packages))
    proof = Command("proof", ("sh", "-c", f"echo >{made.root}/proof"), ("rm", "-f", f"{made.root}/proof"))

    def install(lock_wait_s):
        engine = fault_nodes.engine([made], Wanted((step, proof)), names=("proof",), lock_wait_s=lock_wait_s)
        run = RunDir.create("bootstrap", tmp_path / "runs")
        result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
        return engine, run, result.outcomes["node01"].steps[0]

    other = threading.Thread(target=_look, args=(made, inventory, f"apt-get -qq -y install {slow} 2>&1"))
    other.start()
    try:
        deadline = time.monotonic() + 60
        while not began.exists():
            assert time.monotonic() < deadline and other.is_alive()
            time.sleep(0.05)
        _, _, refused = install(1)
        assert refused.status.value == "failed"
        assert re.search(
            r"apt-get.* \(process \d+\) still holds /var/lib/\S+ after 1 s of waiting; .*", refused.reason
        )
        before = fault_nodes.times_told(tmp_path / "runs", "waiting for")

        def end_when_waited_for():
            wait_until(
                lambda: fault_nodes.times_told(tmp_path / "runs", "waiting for") > before,
                "nobody waits for it",
                50,
            )
            may_end.touch()

        threading.Thread(target=end_when_waited_for, daemon=True).start()
        engine, run, waited = install(100)
    finally:
        may_end.touch()
        other.join(60)
    assert (waited.status.value, waited.reason) == ("changed", "")
    assert "waiting for" in waited.notes[0]
    Undo(engine.connect, 1, 120, "tester@here", run.id, False, engine.state_dir).execute(
        inventory.nodes, {"node01": run.id}
    )
    left = _look(made, inventory, INSTALLED)
    assert "clusterctl-test-slow ii" in left and "clusterctl-test-library" not in left


def test_what_is_there_already_is_not_carried_again_and_what_was_cut_is(node, packages):
    made, inventory = node
    engine = fault_nodes.engine([made], Wanted(()), names=())
    folder = carry.read(str(packages), "apt", ["clusterctl-test-tool"])
    transport = engine.connect(inventory.nodes[0])
    sent: list[str] = []
    put = transport.put

    def counted(data, path, **options):
        sent.append(Path(path).name)
        put(data, path, **options)

    transport.put = counted
    place = f"{fault_nodes.STATE}/carried/run"
    carry.carry(transport, {"f": folder}, place, lambda *_: None)
    assert sent == sorted(p.name for p in packages.glob("*.deb"))
    there = made.state / "carried/run" / folder.name / "files"
    assert {p.name: p.read_bytes() for p in there.iterdir()} == {
        p.name: p.read_bytes() for p in packages.glob("*.deb")
    }
    sent.clear()
    (there / "clusterctl-test-other_1.0_all.deb").write_bytes(b"half of i")
    carry.carry(transport, {"f": folder}, place, lambda *_: None)
    assert sent == ["clusterctl-test-other_1.0_all.deb"]
    transport.close()


def test_what_cannot_be_carried_whole_leaves_nothing_on_the_node(packages, tmp_path):
    """As on a disk that is full in the middle: what came before would stay there, and nothing would remove it."""
    folder = carry.read(str(packages), "apt", ["clusterctl-test-tool"])
    place = tmp_path / "node/carried/run1"
    (place / folder.name / "files" / folder.sums[-1][0]).mkdir(parents=True)
    transport = Connector()(Node(name="here", address="localhost", connection="local"))
    with pytest.raises(CommandError, match="cannot be written"):
        carry.carry(transport, {"f": folder}, str(place), lambda *_: None)
    assert not place.exists()


def test_a_folder_that_will_not_do_is_refused_before_anything_is_changed(packages):
    with pytest.raises(PlanError, match=r"no \.deb file for: absent"):
        carry.read(str(packages), "apt", ["clusterctl-test-tool", "absent"])
    with pytest.raises(PlanError, match=r"no \.rpm file for: clusterctl-test-tool"):
        carry.read(str(packages), "dnf", ["clusterctl-test-tool"])
    (packages / "clusterctl-test-other_1.0_all.deb").write_bytes(b"not what it was")
    with pytest.raises(PlanError, match="does not match SHA256SUMS"):
        carry.read(str(packages), "apt", ["clusterctl-test-tool"])
    (packages / "clusterctl-test-other_1.0_all.deb").unlink()
    with pytest.raises(PlanError, match="cannot be read"):
        carry.read(str(packages), "apt", ["clusterctl-test-tool"])
    sums = packages / "SHA256SUMS"
    for bad in ("zz  x.deb", f"{'0' * 64}  ../x.deb", f"{'0' * 64}  /x.deb", "0" * 64, f"{'0' * 64}  "):
        sums.write_text(bad + "\n")
        with pytest.raises(PlanError, match="not a line of sha256sum"):
            carry.read(str(packages), "apt", [])
    sums.unlink()
    with pytest.raises(PlanError, match="no readable SHA256SUMS") as refused:
        carry.read(str(packages), "apt", [])
    assert "sha256sum" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("libibverbs1_50.0-2ubuntu0.2_amd64.deb", "libibverbs1"),
        ("docker-ce_5%3a27.3.1-1~debian.12~bookworm_amd64.deb", "docker-ce"),
        ("rdma-core-48.0-1.el9.x86_64.rpm", "rdma-core"),
        ("Packages", None),
        ("repodata/repomd.xml", None),
    ],
)
def test_the_package_of_a_file(file, package):
    assert carry.package_of(file) == package
