"""The main job on two real kernels: bare nodes, all that needs no GPU, in one bootstrap; power loss, reboot, undo.

One journey through the installed command, told once (guests without KVM are slow), and one test per promise. The nodes
have no repository: the controller carries Debian's own packages. node1 also builds an out-of-tree module that stands
in for nv_peer_mem, and serves the shared directory.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import guest_journey as guests
import guest_state
import pytest
import time_server
import yaml
from guest_journey import NODES, node_of, on_both, statuses

# The whole journey is made in the first test's set-up: minutes with KVM or idle cores, much longer beside other guests.
pytestmark = pytest.mark.timeout(4200)

TOY = Path(__file__).parent / "toy_peer_mem"
SHARED = "/srv/shared"
CLUSTER_FILE = "node1 10.83.0.11\nnode2 10.83.0.12\n"
# All of the catalogue but what needs an NVIDIA GPU. A virtual machine's kernel scales no frequencies, so that there is
# no governor to set; links are judged and never changed: see the tests of these two.
WANTED = (
    *("acs", "docker", "rdma-userspace", "network-buffers", "numa-balancing", "memlock"),
    *("cluster-file", "time-sync", "ssh-mesh", "shared-dir", "mpi", "python"),
)
SETTLED = {"met", "not-applicable"}
HELLO = f"cat {SHARED}/from-{{0}} 2>&1"
MESH = "ssh -o BatchMode=yes {0} hostname 2>&1"


def pytest_generate_tests(metafunc):
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", NODES)


def _inventory(session, folder):
    """The lab's own inventory, and what a site would say it wants."""
    document = yaml.safe_load(session.lab.inventory_path.read_text())
    source = folder / "cluster"
    source.write_text(CLUSTER_FILE)
    document["defaults"]["requirements"] |= {
        "cluster_file": {"source": str(source)},
        "ssh_mesh": {"require": True},
        "shared_dir": {"path": SHARED, "server": "node1"},
        # QEMU's name for the machine it runs on.
        "time_sync": {"servers": ["10.0.2.2"]},
    }
    document["nodes"][0]["requirements"] = {
        "peermem": {"mechanism": "nv_peer_mem", "source": str(TOY), "module": "toy_peer_mem"}
    }
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def _prove(session):
    """What the requirements are for, tried out: a login from each node to the other, a file written and read."""
    for node in NODES:
        session.run(node, f"echo written by {node} >{SHARED}/from-{node}", check=False)
    seen = {}
    for node, other in (NODES, NODES[::-1]):
        seen[node] = {
            "login": session.run(node, MESH.format(other), check=False).stdout.strip(),
            "file": session.run(node, HELLO.format(other), check=False).stdout.strip(),
            "engine": session.run(node, "docker info -f '{{.ServerVersion}}'", check=False).stdout.strip(),
            "limit": session.output(node, "ulimit -l"),
            "balancing": session.output(node, "cat /proc/sys/kernel/numa_balancing"),
            "words": guests.words(session, node),
        }
    return seen


@pytest.fixture(scope="module")
def journey(bare_lab, clusterctl, tmp_path_factory):
    """Everything that was seen on the way."""
    with time_server.serving("127.0.0.1"):
        yield _travel(bare_lab, clusterctl, tmp_path_factory.mktemp("bootstrap"))


def _travel(session, clusterctl, folder):
    command, inventory = guests.Command(clusterctl, session, folder), _inventory(session, folder)
    seen, began = {}, time.monotonic()

    def prepare(node):
        guests.install_firmware(session, node)
        guests.redirect(session, node)
        # The lab's dpkg writes without waiting for the disk. Of a node that loses its power, packages shall stay whole.
        session.run(node, "sed -i /force-unsafe-io/d /etc/dpkg/dpkg.cfg.d/clusterctl-lab && sync")
        return guest_state.take(session, node)

    seen["before"] = on_both(prepare)
    seen["limit before"] = session.output("node1", "ulimit -l")
    seen["first check"] = command.run("check", inventory)
    seen["dry run"] = command.run("bootstrap", "--dry-run", inventory)
    seen["after dry run"] = on_both(lambda node: guest_state.take(session, node))
    seen["journal after dry run"] = session.output("node2", "ls -d /var/lib/clusterctl 2>&1; true")

    # Late, since what is lost has to be made up for; early enough that much is still to be done.
    planned = len(node_of(seen["dry run"][1], "node2")["steps"])
    try:
        with command.start("bootstrap", "--yes", "--json", inventory) as process:
            run = command.wait_for_changes("node2", planned // 2, process)
            session.kill("node2")
            out, err = process.communicate(timeout=2700)
    finally:
        session.start("node2")
    seen["run"] = run
    seen["cut bootstrap"] = (process.returncode, json.loads(out), err)
    seen["words of node1"] = guests.words(session, "node1")
    seen["resumed"] = command.run("bootstrap", "--yes", "--resume", run)
    seen["proof"] = _prove(session)
    seen["module"] = session.run("node1", "cat /sys/module/toy_peer_mem/version", check=False).stdout.strip()
    seen["second bootstrap"] = command.run("bootstrap", "--yes", inventory)

    on_both(session.reboot)
    # A node answers SSH before its boot has ended: the directory comes when the server, which boots as well, has it.
    settled = "timeout 600 systemctl is-system-running --wait"
    on_both(lambda node: session.run(node, settled, timeout_s=700, check=False))
    seen["check after reboot"] = command.run("check", inventory)
    seen["proof after reboot"] = _prove(session)
    seen["firmware"] = on_both(lambda node: guests.words_of_firmware(session, node))
    seen["order"] = on_both(lambda node: _boot_order(session, node))
    seen["module after reboot"] = session.run(
        "node1", "cat /sys/module/toy_peer_mem/version", check=False
    ).stdout.strip()

    # What people put into the directory is theirs: with it there, undo leaves the directory.
    session.run("node1", f"rm -f {SHARED}/from-*")
    seen["undo"] = command.run("undo", "--yes", inventory)
    seen["undone"] = on_both(lambda node: guest_state.take(session, node))
    seen["words undone"] = on_both(lambda node: guests.words(session, node))
    seen["limit undone"] = session.output("node1", "ulimit -l")
    seen["second undo"] = command.run("undo", "--yes", inventory)
    # What services loaded and set by themselves while they ran goes with the kernel that they ran on.
    on_both(session.reboot)
    seen["after"] = on_both(lambda node: guest_state.take(session, node))
    command.took_s["journey"] = round(time.monotonic() - began)
    (folder / "times.json").write_text(json.dumps(command.took_s))
    return seen


def _boot_order(session, node):
    """Return when our unit had done its work and when the SSH server was started, in microseconds since boot."""
    questions = (("clusterctl-acs", "ActiveEnter"), ("ssh", "InactiveExit"))
    return [
        int(session.output(node, f"systemctl show --value -p {change}TimestampMonotonic {unit}.service"))
        for unit, change in questions
    ]


def test_bare_nodes_meet_nothing_of_what_needs_no_gpu(journey, node):
    code, document, _ = journey["first check"]
    found = statuses(document, node)
    assert code == 1
    assert {name: found[name] for name in WANTED} == dict.fromkeys(WANTED, "unmet")
    reasons = {v["requirement"]: v["reason"] for v in node_of(document, node)["verdicts"]}
    assert all(f"0000:{port} (001d)" in reasons["acs"] for port in guests.PORTS)


def test_what_a_guest_cannot_have_is_said_to_be_not_applicable(journey, node):
    verdicts = {v["requirement"]: v for v in node_of(journey["first check"][1], node)["verdicts"]}
    assert verdicts["cpu-governor"]["status"] == "not-applicable"
    assert "no frequency scaling" in verdicts["cpu-governor"]["reason"]
    for name in ("gpu-driver", "gpu-persistence", "fabric-manager", "container-toolkit"):
        assert verdicts[name]["status"] == "not-applicable", verdicts[name]


def test_a_dry_run_plans_and_touches_nothing(journey, node):
    code, document, _ = journey["dry run"]
    assert code == 1
    assert {step["status"] for step in node_of(document, node)["steps"]} == {"planned"}
    assert {step["requirement"] for step in node_of(document, node)["steps"]} >= set(WANTED) - {"shared-dir"}
    assert guest_state.differences(journey["before"][node], journey["after dry run"][node]) == []
    assert "No such file" in journey["journal after dry run"]


def test_power_loss_in_the_middle_is_a_named_failure_and_the_other_node_goes_on(journey):
    code, document, said = journey["cut bootstrap"]
    assert code == 1
    assert "node2" in said
    lost = node_of(document, "node2")
    assert lost["reachable"] is False
    assert lost["error"]["kind"] in ("lost", "timeout", "deadline")
    ended = [step["status"] for step in lost["steps"]]
    assert ended.count("changed") >= 2
    assert set(ended) & {"failed", "skipped"}
    healthy = node_of(document, "node1")
    assert healthy["reachable"] is True
    # What a package's own scripts enable is found so by the step after it.
    ended = {(step["status"], step.get("reason")) for step in healthy["steps"]}
    assert ended <= {("changed", None), ("unchanged", "already in the required state")}
    assert journey["words of node1"] == ["0000", "0000"]
    # The mesh and the shared directory need both; all else of node1 is done.
    unmet = {v["requirement"] for v in healthy["verdicts"] if v["status"] not in SETTLED}
    assert unmet <= {"ssh-mesh", "shared-dir"}


def test_resume_finishes_under_the_same_run(journey, node):
    code, document, said = journey["resumed"]
    assert code == 0, (document, said)
    assert document["run"] == journey["run"]
    assert (document["summary"]["failed"], document["summary"]["unreachable"]) == (0, 0)
    found = statuses(document, node)
    assert {name: found[name] for name in WANTED} == dict.fromkeys(WANTED, "met")
    assert set(found.values()) <= SETTLED


@pytest.mark.parametrize("when", ["proof", "proof after reboot"])
def test_what_was_met_is_true(journey, node, when):
    proof, other = journey[when][node], {"node1": "node2", "node2": "node1"}[node]
    assert proof["login"] == other
    assert proof["file"] == f"written by {other}"
    assert proof["engine"]
    assert journey["limit before"] != "unlimited"
    assert (proof["limit"], proof["balancing"], proof["words"]) == ("unlimited", "0", ["0000", "0000"])


def test_a_second_bootstrap_changes_nothing(journey):
    code, document, _ = journey["second bootstrap"]
    assert code == 0
    assert document["summary"] == {"changed": 0, "failed": 0, "not_done": 0, "planned": 0, "unreachable": 0}
    assert all(node["steps"] == [] for node in document["nodes"])


def test_after_a_reboot_everything_is_still_met(journey, node):
    code, document, _ = journey["check after reboot"]
    assert code == 0, document
    found = statuses(document, node)
    assert {name: found[name] for name in WANTED} == dict.fromkeys(WANTED, "met")


def test_what_firmware_sets_at_boot_is_cleared_before_anyone_can_log_in(journey, node):
    assert journey["firmware"][node] == ["001d", "001d"]
    cleared, ssh_started = journey["order"][node]
    assert 0 < cleared <= ssh_started


def test_the_stand_in_for_nv_peer_mem_is_built_loaded_and_loaded_again_by_boot(journey):
    steps = node_of(journey["cut bootstrap"][1], "node1")["steps"]
    assert {step["status"] for step in steps if step["requirement"] == "peermem"} == {"changed"}
    assert (journey["module"], journey["module after reboot"]) == ("1.3", "1.3")
    assert statuses(journey["check after reboot"][1], "node1")["peermem"] == "met"
    assert statuses(journey["check after reboot"][1], "node2")["peermem"] == "not-applicable"


def test_links_are_judged_and_left_alone(journey, node):
    for when in ("first check", "resumed", "check after reboot"):
        assert statuses(journey[when][1], node)["rdma-link"] == "met"
    steps = node_of(journey["resumed"][1], node)["steps"]
    assert not [step for step in steps if step["requirement"] == "rdma-link"]


def test_undo_restores_registers_limits_and_files_byte_for_byte(journey, node):
    code, document, said = journey["undo"]
    assert code == 0, (document, said)
    assert node_of(document, node)["run"] == journey["run"]
    assert journey["words undone"][node] == ["001d", "001d"]
    assert journey["limit undone"] == journey["limit before"]
    before, undone = journey["before"][node], journey["undone"][node]
    assert guest_state.differences(before, undone, "files", "packages", "units") == []


def test_the_undone_node_boots_as_the_one_that_it_was(journey, node):
    assert guest_state.differences(journey["before"][node], journey["after"][node]) == []


def test_there_is_nothing_left_to_undo(journey, node):
    code, document, _ = journey["second undo"]
    assert code == 0
    assert "nothing to undo" in node_of(document, node)["nothing"]
