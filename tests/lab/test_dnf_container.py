"""The RHEL family's steps on real dnf and rpm, over real SSH: installed, read back, waited for, and taken back exactly.

The node is Debian's dnf in a system that calls itself Rocky Linux; tests/support/dnf_node.py says what of it is real.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import dnf_node
import pytest
import rpm_packages
import yaml
from rpm_packages import Rpm

from clusterctl.apply import bootstrap
from clusterctl.apply.bootstrap import Engine
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.errors import PlanError
from clusterctl.facts.gather import gather
from clusterctl.inventory import load
from clusterctl.lab import host
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.gpu import driver_install
from clusterctl.requirements.steps import InstallPackages
from clusterctl.rundir import RunDir
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

RDMA = {"libibverbs", "libibverbs-utils", "librdmacm", "rdma-core"}
# Everything that a package may change; what dnf and rpm keep of their own work is compared by their own words.
MANIFEST = r"""
cd / && find etc usr opt root srv/none var -xdev \
  \( -path var/lib/rpm -o -path var/lib/dnf -o -path var/cache -o -path var/log -o -path var/lib/clusterctl \) -prune \
  -o -printf '%y %m %U:%G %l %p\n' 2>/dev/null | sort
find etc opt root usr/bin usr/sbin usr/lib64 -xdev -type f -exec sha256sum {} + | sort -k 2
"""
# Holds the lock of the RPM database until a file says that it may end.
SLOW = Rpm("slow-package", pre="touch /run/slow-began; while [ ! -e /run/slow-may-end ]; do sleep 0.1; done")
TOOL = Rpm("site-tool", ("libibverbs",), {"/usr/bin/site-tool": "#!/bin/sh\nexit 0\n"})
OLD, NEW = Rpm("site-old"), Rpm("site-new", obsoletes=("site-old",))
DRIVERS = tuple(
    rpm
    for version in ("570.86.15", "580.95.05", "590.44.01")
    for rpm in (
        Rpm("nvidia-open", ("nvidia-driver",), version=version),
        Rpm("nvidia-driver", version=version),
    )
)


class Wanted:
    """A requirement that wants packages and nothing else; its steps are those of every real one that installs."""

    NAME, TITLE, READS = "wanted", "The packages are there", frozenset()

    def __init__(self, node, *names, folder=None, first=()):
        self.node, self.names, self.folder, self.first = node, names, folder, first

    def decide(self, facts, node, fleet):
        assert facts.software.manager == "dnf"
        missing = set(self.names) - _names(self.node.packages())
        if missing:
            return Decision(
                self.NAME, Status.UNMET, f"missing: {sorted(missing)}", steps=self._steps(facts, node)
            )
        return Decision(self.NAME, Status.MET, "all are there")

    def _steps(self, facts, node):
        folder = None if self.folder is None else str(self.folder)
        return (*self.first, InstallPackages("Install them", "dnf", self.names, folder))


@dataclasses.dataclass
class Controller:
    """The machine that clusterctl runs on."""

    node: dnf_node.DnfNode
    script: Path
    folder: Path

    def __post_init__(self):
        self.runs = self.folder / "runs"
        self.connector = Connector(connect_timeout_s=20)

    def inventory(self, **requirements):
        """Write the inventory and return its path."""
        path = self.folder / "inventory.yaml"
        document = {
            "version": 1,
            "defaults": {
                "user": "root",
                "identity_file": str(self.node.identity_file),
                "known_hosts": str(self.node.known_hosts),
                "requirements": requirements,
            },
            "nodes": [{"name": "rocky1", "address": dnf_node.ADDRESS, "port": self.node.port}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def command(self, *arguments):
        """Run the installed command; return (exit code, the one node of its JSON document)."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
        done = subprocess.run(
            (str(self.script), *map(str, arguments), "--json"),
            env=env | {"CLUSTERCTL_RUNS": str(self.runs)}, cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["nodes"][0]

    def install(self, *names, folder=None, first=()):
        """Bootstrap a node that wants just these packages; return its outcome and its verdict."""
        inventory = load.load(self.inventory())
        engine = Engine(
            connect=self.connector,
            gather=lambda found: fan_out(
                found.nodes, self.connector, lambda n, t: gather(t, n, timeout_s=60)
            ),
            fanout=1,
            timeout_s=120,
            requirements={"wanted": Wanted(self.node, *names, folder=folder, first=first)},
        )
        run = RunDir.create("bootstrap", self.runs)
        result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
        return result.outcomes["rocky1"], result.verdicts.values_by_node["rocky1"][0]

    def undo(self, *, force=False):
        """Take back the node's latest run; return its outcome."""
        nodes = load.load(self.inventory()).nodes
        undo = Undo(self.connector, 1, 120, "test", force=force)
        listed = undo.list(nodes).values_by_node["rocky1"]
        return undo.execute(nodes, {"rocky1": listed.run}).values_by_node["rocky1"]


@pytest.fixture(scope="module")
def node(tmp_path_factory, tier_unavailable):
    if os.geteuid() != 0:
        tier_unavailable("a system in namespaces of its own needs root")
    missing = host.missing_tools(dnf_node.TOOLS)
    if missing:
        tier_unavailable(f"missing: {', '.join(sorted(set(missing.values())))}")
    with dnf_node.started(tmp_path_factory.mktemp("dnf"), ("rpcbind",)) as started:
        extra = started.folder / "extra"
        rpm_packages.build((SLOW, TOOL, OLD, NEW, *DRIVERS), extra, started.folder / "scratch")
        for path in extra.iterdir():
            path.rename(started.folder / "repository" / path.name)
        rpm_packages.make_repository(started.folder / "repository")
        started.run("dnf -q clean all")
        yield started


@pytest.fixture
def controller(node, clusterctl, tmp_path):
    """A controller of a node that has its repository, and that must be what it was when the test ends."""
    before = node.packages(), node.output(MANIFEST).splitlines()
    yield Controller(node, clusterctl, tmp_path)
    after = node.packages(), node.output(MANIFEST).splitlines()
    extra = sorted(_names(set(after[0]) - set(before[0])))
    if extra:  # the other tests' node shall be what they expect
        node.run(f"dnf -q -y remove {' '.join(extra)}")
    assert after[0] == before[0]
    assert after[1] == before[1]


def _statuses(outcome):
    return [step.status.value for step in outcome.steps]


def _names(packages):
    return {name.rsplit("-", 2)[0] for name in packages}


def test_the_stand_in_is_one_of_the_family_without_apt(controller):
    assert controller.node.run("command -v apt-get dpkg-query", check=False).returncode != 0
    assert controller.node.output("rpm -E %rhel; . /etc/os-release; echo $ID").splitlines()[-1] == "rocky"
    code, verdicts = controller.command("check", controller.inventory(), "--only", "rdma-userspace")
    assert code == 1
    assert verdicts["verdicts"][0]["status"] == "unmet"
    assert "libibverbs is not installed" in verdicts["verdicts"][0]["reason"]


def test_the_rdma_userspace_is_brought_and_taken_back_by_the_command(controller):
    node, before = controller.node, controller.node.packages()
    inventory = controller.inventory()
    code, done = controller.command("bootstrap", "--yes", inventory, "--only", "rdma-userspace")
    assert code == 0, done
    assert [step["status"] for step in done["steps"]] == ["changed"]
    assert done["verdicts"][0]["status"] == "met"
    assert done["verdicts"][0]["evidence"]["listed"] == ["mlx5_0"]
    brought = _names(set(node.packages()) - set(before))
    assert brought == RDMA | {"pciutils"}  # what rdma-core depends on

    code, again = controller.command("bootstrap", "--yes", inventory, "--only", "rdma-userspace")
    assert (code, again["steps"]) == (0, [])
    code, undone = controller.command("undo", "--yes", inventory)
    assert code == 0, undone


def test_undo_keeps_what_was_there_before_though_ours_needed_it(controller):
    node, before = controller.node, controller.node.packages()
    outcome, verdict = controller.install("nfs-utils", "chrony", "docker-ce", "pciutils")
    assert (_statuses(outcome), verdict.status) == (["changed"], Status.MET)
    brought = _names(set(node.packages()) - set(before))
    assert brought == {
        "nfs-utils", "libnfsidmap", "chrony", "docker-ce", "docker-ce-cli", "containerd.io", "pciutils",
    }  # fmt: skip
    assert _statuses(controller.undo()) == ["changed"]
    assert node.packages() == before
    assert any(name.startswith("rpcbind-") for name in node.packages())
    last, first = node.output("dnf history list --reverse | tail -n 2").splitlines()[::-1]
    assert "Install" in first or "I" in first.split("|")[3]
    assert "Removed" in last or "E" in last.split("|")[3]


def test_carried_packages_need_no_repository(controller):
    node = controller.node
    node.repository_is(there=False)
    try:
        assert node.run("dnf -q -y install docker-ce", check=False).returncode != 0
        outcome, verdict = controller.install("docker-ce", "chrony", folder=node.folder / "repository")
        assert (_statuses(outcome), verdict.status) == (["changed"], Status.MET), outcome
        assert node.output("rpm -q --qf '%{NAME} ' containerd.io") == "containerd.io"
        assert _statuses(controller.undo()) == ["changed"]
    finally:
        node.repository_is(there=True)


def test_a_carried_package_that_is_not_what_its_sum_says_is_never_installed(controller, tmp_path):
    node, carried = controller.node, tmp_path / "carried"
    carried.mkdir()
    for path in (node.folder / "repository").glob("*.rpm"):
        (carried / path.name).write_bytes(path.read_bytes())
    rpm_packages.make_repository(carried)
    with (carried / "chrony-1.0-1.x86_64.rpm").open("ab") as package:
        package.write(b"\0")
    before = node.packages()
    with pytest.raises(PlanError, match=r"chrony-1\.0-1\.x86_64\.rpm does not match SHA256SUMS"):
        controller.install("chrony", folder=carried)
    assert node.packages() == before


def test_a_name_that_no_repository_has_is_a_failure_that_says_so(controller):
    outcome, verdict = controller.install("no-such-package")
    assert (_statuses(outcome), verdict.status) == (["failed"], Status.UNMET)
    assert "no-such-package" in outcome.steps[0].reason


@pytest.mark.parametrize("other", ["dnf -q -y install slow-package", "rpm -i --force-debian {slow}"])
def test_a_lock_held_by_another_is_waited_for_and_its_packages_stay(controller, other):
    node, before = controller.node, controller.node.packages()
    node.run("rm -f /run/slow-*")
    slow = f"{dnf_node.REPOSITORY}/slow-package-1.0-1.x86_64.rpm"
    found = {}
    ours = threading.Thread(target=lambda: found.update(ended=controller.install("chrony")))
    with subprocess.Popen(
        node.ssh_argv(other.format(slow=slow)), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            node.run(
                "i=0; until [ -e /run/slow-began ]; do [ $i -lt 1000 ] || exit 1; sleep 0.1; i=$((i+1)); done"
            )
            ours.start()
            time.sleep(8)
            assert ours.is_alive()
            assert node.packages() == before
        finally:
            node.run("touch /run/slow-may-end")
        said = process.communicate(timeout=120)[0]
        assert process.returncode == 0, said
    ours.join(200)
    outcome, verdict = found["ended"]
    assert (_statuses(outcome), verdict.status) == (["changed"], Status.MET), outcome
    # Theirs came after ours was begun and before it was done: it is theirs all the same.
    assert _statuses(controller.undo()) == ["changed"]
    assert _names(set(node.packages()) - set(before)) == {"slow-package"}
    node.run("dnf -q -y remove slow-package; rm -f /run/slow-*")


def test_undo_removes_nothing_that_the_site_has_built_on_it_unless_forced(controller):
    node = controller.node
    outcome, _verdict = controller.install("libibverbs")
    assert _statuses(outcome) == ["changed"]
    node.run("dnf -q -y install site-tool")
    refused = controller.undo()
    assert _statuses(refused) == ["failed"]
    assert "site-tool" in refused.steps[0].reason
    assert node.run("rpm -q site-tool libibverbs", check=False).returncode == 0
    assert _statuses(controller.undo(force=True)) == ["changed"]


def test_a_package_is_not_installed_at_the_price_of_another(controller):
    node = controller.node
    node.run(f"rpm -i --force-debian {dnf_node.REPOSITORY}/site-old-1.0-1.x86_64.rpm")
    outcome, verdict = controller.install("chrony", "site-new")
    assert (_statuses(outcome), verdict.status) == (["failed"], Status.UNMET)
    assert "would remove or downgrade site-old; resolve this by hand" in outcome.steps[0].reason
    assert node.output("rpm -q site-old") == "site-old-1.0-1.x86_64"
    assert node.run("rpm -q chrony site-new", check=False).returncode == 2
    node.run("rpm -e --force-debian site-old")


@pytest.mark.parametrize("version", ["580", "580.95.05"])
def test_a_branch_of_the_driver_is_locked_where_it_is_no_stream_and_unlocked_by_undo(controller, version):
    """RHEL 10 has no module streams; the real plugin of dnf writes and removes the locks."""
    node, lock = controller.node, driver_install.lock_version(version, "nvidia-open")
    before = node.output(f"cat {driver_install.LOCKS}")
    outcome, verdict = controller.install("nvidia-open", first=(lock,))
    assert (_statuses(outcome), verdict.status) == (["changed", "changed"], Status.MET), outcome
    assert node.output("rpm -q nvidia-open nvidia-driver") == (
        "nvidia-open-580.95.05-1.x86_64\nnvidia-driver-580.95.05-1.x86_64"
    )
    assert node.run("dnf -y -q upgrade", check=False).returncode == 0
    assert node.output("rpm -q nvidia-open") == "nvidia-open-580.95.05-1.x86_64"
    assert _statuses(controller.undo()) == ["changed", "changed"]
    assert node.output(f"cat {driver_install.LOCKS}") == before


def test_a_branch_that_no_repository_has_locks_nothing(controller):
    lock = driver_install.lock_version("535", "nvidia-open")
    outcome, _verdict = controller.install("nvidia-open", first=(lock,))
    assert _statuses(outcome)[0] == "failed"
    assert controller.node.run("rpm -q nvidia-open", check=False).returncode != 0
