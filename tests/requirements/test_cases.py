"""Every requirement against recorded cases: ``<requirement>/<case>.yaml``, one trap or situation per file.

A case says what a node looks like in few words (``facts``; anything left out is a plain bare-metal Debian node),
what the inventory says of it (``node``), and what must come out (``expect``: status, parts of the reason, parts of
the warnings, and the steps, each as its kind and what it changes; INSTALL is the command that installs a built
module, and a script of several lines is shown by its name and arguments). ``peers`` says how other nodes of the
fleet differ from this one; ``everyone`` says what the inventory says of all nodes, and ``nodes`` what it says of single
other ones. The facts of a node of ``nodes`` that is no peer are unknown. ``launcher`` is the inventory's; ``core`` is
what the controller's collective_core runs on (CPU and glibc), or null if it has none. ``rows`` names further systems on
which the case is judged, with the facts and expectations that differ there.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from case_facts import facts_of

from clusterctl import resources
from clusterctl.apply.plan.build import build
from clusterctl.apply.plan.model import Plan
from clusterctl.apply.plan.model import from_document as plan_from_document
from clusterctl.apply.plan.model import to_document as plan_to_document
from clusterctl.core_wheel import Carried
from clusterctl.errors import UsageError
from clusterctl.facts.catalog import complete
from clusterctl.facts.document import from_document, to_document
from clusterctl.inventory.model import Launcher, Node
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.judge import judge_node, refuse_nothing_to_judge, validate_names
from clusterctl.requirements.steps import WriteFile

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))
ROWS = [(path, None) for path in CASES] + [
    (path, row) for path in CASES for row in resources.table(path).get("rows", ())
]


SUBJECT_OF = {
    "gpudirect": "modules",
    "sysctls": "configuration",
    "managed_files": "configuration",
    "host_config": "configuration",
    "rdma_files": "configuration",
}
OF_EVERY_PROBE = {"name", "gathered_at", "duration_s", "root", "sections"}


class NotAsked:
    """Stands where facts would be that the node was not asked for: reading one raises an error that says so."""

    def __init__(self, field):
        self.field = field

    def __getattr__(self, name):
        raise AssertionError(f"{self.field}.{name} is read, and the requirement's READS do not say so")

    def __iter__(self):
        raise AssertionError(f"{self.field} is read, and the requirement's READS do not say so")


def _asked_only(facts, subjects):
    known = {*OF_EVERY_PROBE, *complete(subjects)}
    left_out = {field.name for field in fields(facts) if SUBJECT_OF.get(field.name, field.name) not in known}
    return replace(facts, **{name: NotAsked(name) for name in left_out})


def _spoken(step):
    """A step in a case's words: its kind, what it changes, and the value where there is one."""
    if step.kind == "command" and step.argv[0] == "sh":
        if "\n" in step.argv[2]:
            return " ".join(["script", *step.argv[3:]])
        known = {"install -D": "INSTALL", "versionlock": "LOCK"}
        return next((name for text, name in known.items() if text in step.argv[2]), step.argv[2])
    # What distinguishes two reboots is their description, which cases leave out.
    words = [step.kind, *(() if step.kind == "reboot" else step.target()[1:])]
    if step.kind in ("set-register", "write-value"):
        words += [f"{step.prior}->{step.value}"]
    return " ".join(words)


def _core(words):
    if words is None:
        return None
    machine, glibc = words.split()
    major, minor = map(int, glibc.split("."))
    return Carried(f"collective_core-0.1.0-py3-none-linux_{machine}.whl", machine, (major, minor))


def _placed(case, **differing):
    """Return the facts, the node and the fleet of a case; ``differing`` changes the facts of all nodes."""
    said, everyone, own = case.get("nodes", {}), case.get("everyone", {}), case.get("facts", {})
    node = Node.model_validate({"name": "n1", "address": "n1", **everyone, **case.get("node", {})})
    # Each peer's facts are given as where they differ from this node's.
    found = {
        name: facts_of({**own, **of, **differing})
        for name, of in {node.name: {}, **case.get("peers", {})}.items()
    }
    others = tuple(
        Node.model_validate({"name": name, "address": name, **everyone, **said.get(name, {})})
        for name in dict.fromkeys((*case.get("peers", {}), *said))
    )
    earlier = {node.name: facts_of({**own, **case["earlier"], **differing})} if "earlier" in case else {}
    launcher = Launcher(case.get("launcher", "openmpi"))
    core = _core(case.get("core", "x86_64 2.35"))
    return found[node.name], node, Fleet((node, *others), found, earlier, launcher, core)


@pytest.mark.parametrize(
    ("path", "row"), ROWS, ids=["/".join(filter(None, (p.parent.name, p.stem, row))) for p, row in ROWS]
)
def test_case(path, row):
    judge_case(path, row)


def judge_case(path, row=None):
    """Judge one case, on the system of one of its rows if that is given."""
    case = resources.table(path)
    of_row = (case.pop("rows", None) or {}).get(row) or {}
    if row is not None:
        case["facts"] = {**case.get("facts", {}), "os": row, **of_row.get("facts", {})}
        case["expect"] = {**case["expect"], **of_row.get("expect", {})}
    assert set(case) <= {
        "about",
        "facts",
        "node",
        "everyone",
        "nodes",
        "expect",
        "peers",
        "earlier",
        "launcher",
        "core",
    }
    assert case["about"]
    requirement = ALL[path.parent.name]
    facts, node, fleet = _placed(case)
    verdict = requirement.decide(facts, node, fleet)
    expect = case["expect"]
    assert verdict.requirement == path.parent.name
    assert verdict.status.value == expect["status"], verdict
    for part in expect.get("reason", []):
        assert part in verdict.reason
    assert len(expect.get("warnings", [])) == len(verdict.warnings), verdict.warnings
    for part, warning in zip(expect.get("warnings", []), verdict.warnings, strict=True):
        assert part in warning
    steps = verdict.steps
    assert [_spoken(step) for step in steps] == expect.get("steps", [])
    if "owner" in expect:
        assert verdict.owner is not None and verdict.owner.value == expect["owner"]
    assert (verdict.no_step, verdict.follows) == (expect.get("no_step", ""), expect.get("follows", ""))
    # Nothing else is asked of nodes when only this requirement is checked.
    asked, then = (
        {name: _asked_only(found, requirement.READS) for name, found in of.items()}
        for of in (fleet.facts, fleet.earlier)
    )
    among = replace(fleet, facts=asked, earlier=then)
    assert requirement.decide(asked[node.name], node, among) == verdict
    for name, part in expect.get("content", {}).items():
        assert part in next(step.content for step in steps if getattr(step, "path", None) == name)
    for name, mode in expect.get("modes", {}).items():
        assert next(step.mode for step in steps if getattr(step, "path", None) == name) == mode
    for name, text in expect.get("whole", {}).items():
        assert next(step.content for step in steps if getattr(step, "path", None) == name) == text
    # All but secrets survives the run folder's files.
    plan = Plan((build(node.name, (verdict,)),))
    again, plan_again = from_document(to_document(facts)), plan_from_document(plan_to_document(plan))
    assert to_document(again) == to_document(facts)
    assert plan_to_document(plan_again) == plan_to_document(plan)
    if expect.get("masked", False):
        assert again.docker.daemon_config != facts.docker.daemon_config
    else:
        assert (again, plan_again) == (facts, plan)


@pytest.mark.parametrize("manager", ["yum", "dnf"])
@pytest.mark.parametrize(("os", "words"), [
    ("centos7", "clusterctl installs nothing on CentOS Linux 7 (Core), whose support ended on 2024-06-30"),
    ("amzn2", "clusterctl installs nothing on Amazon Linux 2, whose support ended on 2026-06-30"),
])  # fmt: skip
def test_nothing_is_installed_on_a_distribution_without_support_and_the_reason_says_why(os, words, manager):
    """CentOS 7 may have dnf from EPEL. Each case that installs something elsewhere is judged there as well."""
    judged = 0
    for path in CASES:
        case = resources.table(path)
        requirement = ALL[path.parent.name]
        if not any(step.kind == "install-packages" for step in requirement.decide(*_placed(case)).steps):
            continue
        judged += 1
        facts, node, fleet = _placed(case, os=os, manager=manager)
        verdict = requirement.decide(facts, node, fleet)
        assert [step for step in verdict.steps if step.kind == "install-packages"] == [], path
        assert verdict.status is Status.UNMET, path
        # The case without docker names docker's requirement, which has the reason.
        assert words in f"{verdict.reason} {verdict.no_step}" or path.stem == "bare_without_docker", path
    assert judged > 60


def test_there_are_cases_for_every_requirement():
    names = {path.parent.name for path in CASES}
    assert names == set(ALL)
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", ALL)
def test_every_requirement_is_judged_on_each_system_of_the_rpm_family(name):
    judged = [(path, row) for path, row in ROWS if path.parent.name == name]
    systems = {row or resources.table(path).get("facts", {}).get("os") for path, row in judged}
    assert {f"{kind}{major}" for kind in ("rhel", "alma", "rocky") for major in (8, 9, 10)} <= systems


@pytest.mark.parametrize("name", ALL)
def test_a_node_of_which_nothing_is_known_is_judged_without_an_error(name):
    empty = {
        "pci": "denied", "driver": "failed", "rdma": "failed", "headers": "absent", "kernel": "unparsable",
        "memlock": "unparsable", "governors": "failed", "docker": {"binary": "/usr/bin/docker", "engine": "denied"},
        "units": [], "manager": None, "tools": "", "vm": "unknown", "peer_memory_api": "failed",
        "dmabuf_verbs": "absent", "libibverbs": None, "providers": "", "uverbs": "", "ibv_devices": "absent",
        "sysctl_section": "failed", "numa": "failed", "numa_balancing": "failed", "rdma_files": "failed",
        "clock": {"offset": None, "uncertainty": None, "source": "none", "synchronized": "failed"},
        "ssh_mesh": "failed", "nfs": "failed", "mounts": "failed", "gpu_health": "failed", "kernel_log": "failed",
        "mpi": "failed", "python": "failed", "disk": "failed", "hostname": "failed",
    }  # fmt: skip
    wanted = {
        "ssh_mesh": {"require": True},
        "mpi": {"require": True},
        "accept_tools": {"require": True},
        "shared_dir": {"path": "/shared", "server": "n2"},
        "cluster_file": {"content": "n1\n"},
    }
    node, other = (
        Node.model_validate({"name": name, "address": name, "requirements": wanted}) for name in ("n1", "n2")
    )
    facts = facts_of(empty)
    fleet = Fleet((node, other), {"n1": facts})
    (verdict,) = judge_node(facts, node, only=[name], fleet=fleet)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason
    assert verdict.steps == ()


@pytest.mark.parametrize("status", Status)
def test_only_an_unmet_requirement_may_have_steps(status):
    step = WriteFile("d", "/etc/one", "1")
    if status is Status.UNMET:
        assert Decision("one", status, "because", steps=(step,)).steps == (step,)
    else:
        with pytest.raises(ValueError, match=f"one: a requirement that is {status.value} must have no steps"):
            Decision("one", status, "because", steps=(step,))


def test_requirements_left_out_are_not_judged():
    facts = facts_of({})
    node = Node.model_validate({"name": "n1", "address": "n1", "requirements": {"skip": ["docker"]}})
    judged = [v.requirement for v in judge_node(facts, node, skip=["acs"])]
    assert judged == [name for name in ALL if name not in ("acs", "docker")]
    assert [v.requirement for v in judge_node(facts, node, only=["memlock", "docker"])] == ["memlock"]


@pytest.mark.parametrize(
    ("only", "skip", "skipped", "said"),
    [
        (["memlock"], ["memlock"], [], "no requirement is left to judge"),
        (["docker", "memlock"], ["memlock"], ["docker"], "the inventory skips docker on every node"),
        (None, [], list(ALL), "the inventory skips time-sync, disk, names, gpu-driver, "),
    ],
)
def test_a_check_of_nothing_is_refused(only, skip, skipped, said):
    settings = {"requirements": {"skip": skipped}}
    nodes = [Node.model_validate({"name": name, "address": name, **settings}) for name in ("n1", "n2")]
    with pytest.raises(UsageError, match=said):
        refuse_nothing_to_judge(nodes, only, skip)
    nodes.append(Node(name="n3", address="n3"))
    if not skip or skipped:
        refuse_nothing_to_judge(nodes, only, skip)


def test_a_mistyped_name_is_refused_with_the_one_that_was_meant():
    with pytest.raises(UsageError, match="unknown requirements: dokcer, memlok") as refused:
        validate_names(["memlok"], ["dokcer"])
    assert refused.value.hint.startswith("did you mean docker and memlock? requirements are: ")
    with pytest.raises(UsageError, match="unknown requirement: x") as refused:
        validate_names(["x"], [])
    assert refused.value.hint.startswith("requirements are: ")
