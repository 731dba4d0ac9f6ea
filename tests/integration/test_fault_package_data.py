"""Undo of real packages whose scripts would delete data, and of a node on which others work at the same time.

The packages are made on the spot; what real apt and dpkg change are overlays in the node's mount namespace: this
machine keeps what it has.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import fault_nodes
import pytest
from fault_nodes import Wanted

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.inventory import load
from clusterctl.requirements.steps import InstallPackages
from clusterctl.rundir import RunDir

OVERLAYS = """
mount -t tmpfs tmpfs "$1/over" 2>/dev/null || { mkdir "$1/over"; mount -t tmpfs tmpfs "$1/over"; }
for place in /var/lib/dpkg /var/lib/apt /var/cache/apt /var/log /opt /etc; do
  name=$(echo "$place" | tr / _)
  mkdir -p "$1/over/$name/upper" "$1/over/$name/work"
  mount -t overlay overlay -o "lowerdir=$place,upperdir=$1/over/$name/upper,workdir=$1/over/$name/work" "$place"
done
mkdir /opt/clusterctl-test-site
echo of the site >/opt/clusterctl-test-site/file
"""

# As docker.io's: the script that deletes the data is put beside it when the package is removed.
ENGINE = {
    "postinst": """\
mkdir -p /opt/clusterctl-test-data
echo image >/opt/clusterctl-test-data/image
groupadd -r clusterctl-tests
# What it makes: a file that this script names, one that its daemon would make, and a link to its own.
echo named >/etc/clusterctl-test-named
echo key >/etc/clusterctl-test-engine/key
x=clusterctl-test-
ln -s /opt/clusterctl-test-engine/file "/etc/${x}link"
# What others make at the same time.
echo other >"/etc/${x}other"
mkdir "/etc/${x}folder"
groupadd -r "${x}g"
""",
    "prerm": """\
if [ "$1" = remove ]; then
  cp /opt/clusterctl-test-engine/nuke-graph-directory.sh /opt/clusterctl-test-data/
  chmod +x /opt/clusterctl-test-data/nuke-graph-directory.sh
fi
""",
    "postrm": """\
if [ "$1" = purge ] && [ -x /opt/clusterctl-test-data/nuke-graph-directory.sh ]; then
  /opt/clusterctl-test-data/nuke-graph-directory.sh /opt/clusterctl-test-data
fi
""",
}
KEEPER = {"postrm": '[ "$1" != purge ] || rm -rf /opt/clusterctl-test-site/*\n'}
NUKE = '#!/bin/sh\nrm -rf "$1"\n'


def _deb(folder: Path, name: str, scripts: dict[str, str], files: dict[str, str], more: str = "") -> None:
    tree = folder / f"tree-{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    for path, text in {f"/opt/{name}/file": f"{name}\n", **files}.items():
        (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tree / path[1:]).write_text(text)
    for script, text in scripts.items():
        (tree / "DEBIAN" / script).write_text(f"#!/bin/sh\nset -e\n{text}")
        (tree / "DEBIAN" / script).chmod(0o755)
    conffiles = "".join(f"{path}\n" for path in files if path.startswith("/etc/"))
    (tree / "DEBIAN/conffiles").write_text(conffiles)
    control = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: a test <a@example.org>\n"
    (tree / "DEBIAN/control").write_text(f"{control}{more}Description: {name}\n more of it\n")
    argv = ("dpkg-deb", "--root-owner-group", "-b", str(tree), str(folder / f"{name}_1.0_all.deb"))
    subprocess.run(argv, check=True, capture_output=True)
    shutil.rmtree(tree)


@pytest.fixture
def packages(tmp_path, tier_unavailable):
    """A directory with an engine, its rival, and one whose purge empties a directory of the site."""
    for program in ("dpkg-deb", "apt-get"):
        if shutil.which(program) is None:
            tier_unavailable(f"{program} is missing: this is no Debian")
    folder = tmp_path / "packages"
    folder.mkdir()
    files = {
        "/opt/clusterctl-test-engine/nuke-graph-directory.sh": NUKE,
        "/etc/clusterctl-test-engine/conf": "a = b\n",
    }
    _deb(folder, "clusterctl-test-engine", ENGINE, files)
    _deb(folder, "clusterctl-test-keeper", KEEPER, {})
    _deb(folder, "clusterctl-test-rival", {}, {}, "Conflicts: clusterctl-test-engine\n")
    sums = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(folder.glob("*.deb"))]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


class Node:
    """A node on which packages are installed and taken back, and looked at."""

    def __init__(self, made, inventory, folder, runs):
        self.made, self.inventory, self.folder, self.runs = made, inventory, folder, runs
        self.engine = fault_nodes.engine([made], Wanted(()), names=())

    def install(self, name):
        """Return the run, and the step's outcome."""
        step = InstallPackages(f"install {name}", "apt", (name,), str(self.folder))
        engine = fault_nodes.engine([self.made], Wanted((step,)), names=())
        run = RunDir.create("bootstrap", self.runs)
        result = bootstrap.apply(engine, bootstrap.prepare(engine, self.inventory, Options(), run), run)
        (outcome,) = result.outcomes["node01"].steps
        return run, outcome

    def undo(self, run):
        work = Undo(self.engine.connect, 1, 120, "tester@here", run.id, False, self.engine.state_dir)
        (outcome,) = work.execute(self.inventory.nodes, {"node01": run.id})["node01"].steps
        return outcome

    def look(self, script):
        transport = self.engine.connect(self.inventory.nodes[0])
        try:
            return transport.run(("sh", "-c", script)).text
        finally:
            transport.close()

    def there(self):
        """Everything of the tests in /etc, /opt and the accounts."""
        found = self.look(
            "find /etc /opt -path '*clusterctl-test*'; grep -o '^clusterctl-test[^:]*' /etc/group"
        )
        return set(found.split())


@pytest.fixture
def node(sshd_farm, packages, tmp_path, monkeypatch):
    farm = sshd_farm(1)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    (made,) = fault_nodes.enter(farm, tmp_path / "nodes", OVERLAYS)
    return Node(made, load.load(farm.inventory(tmp_path)), packages, tmp_path / "runs")


SITE = {"/opt/clusterctl-test-site", "/opt/clusterctl-test-site/file"}
DATA = {"/opt/clusterctl-test-data", "/opt/clusterctl-test-data/image"}
OTHERS = {"/etc/clusterctl-test-other", "/etc/clusterctl-test-folder", "clusterctl-test-g"}


def test_undo_keeps_an_engines_data_and_what_others_made_meanwhile_and_nothing_else(node):
    run, outcome = node.install("clusterctl-test-engine")
    assert outcome.status.value == "changed", outcome
    engine = {
        "/etc/clusterctl-test-named", "/etc/clusterctl-test-link", "/etc/clusterctl-test-engine",
        "/etc/clusterctl-test-engine/key", "/etc/clusterctl-test-engine/conf", "clusterctl-tests",
    }  # fmt: skip
    assert node.there() >= SITE | DATA | OTHERS | engine
    undone = node.undo(run)
    assert undone.status.value == "changed", undone
    assert node.there() == SITE | DATA | OTHERS
    assert node.look("cat /opt/clusterctl-test-data/image") == "image\n"
    assert node.look("dpkg-query -W -f '${Package}\\n' 'clusterctl-test-*' 2>/dev/null || :") == ""


def test_what_is_put_beside_a_package_after_a_crash_before_its_files_were_noted_is_nobodys_but_theirs(node):
    run, outcome = node.install("clusterctl-test-engine")
    assert outcome.status.value == "changed", outcome
    # As a power loss leaves it, right after the installation.
    (entry,) = (node.made.state / "journal" / run.id).glob("[0-9]*")
    for name in ("done", "etc-brought", "users-brought", "groups-brought"):
        (entry / name).unlink()
    sealed = (entry / "seal").read_text().splitlines()
    still_open = [f"- - {line.split()[2]}" if line.endswith("-brought") else line for line in sealed]
    (entry / "seal").write_text("".join(f"{line}\n" for line in still_open))
    node.look("echo theirs >/etc/clusterctl-test-engine/by-hand; echo theirs >>/etc/clusterctl-test-named")
    undone = node.undo(run)
    assert undone.status.value == "changed", undone
    assert node.look("cat /etc/clusterctl-test-engine/by-hand; tail -n 1 /etc/clusterctl-test-named") == (
        "theirs\ntheirs\n"
    )
    assert "/etc/clusterctl-test-link" not in node.there()


def test_a_package_whose_purge_would_empty_a_folder_of_the_site_is_removed_only(node):
    run, outcome = node.install("clusterctl-test-keeper")
    assert outcome.status.value == "changed", outcome
    undone = node.undo(run)
    assert undone.status.value == "changed", undone
    assert node.there() == SITE
    assert node.look("cat /opt/clusterctl-test-site/file") == "of the site\n"
    assert node.look("dpkg-query -W -f '${db:Status-Abbrev}' clusterctl-test-keeper").strip() == "rc"


def test_a_package_is_not_installed_at_the_price_of_another(node):
    assert node.install("clusterctl-test-rival")[1].status.value == "changed"
    _, outcome = node.install("clusterctl-test-engine")
    assert outcome.status.value == "failed"
    assert "installing clusterctl-test-engine would remove clusterctl-test-rival" in outcome.reason
    assert "/opt/clusterctl-test-rival/file" in node.there()
