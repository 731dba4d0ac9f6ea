"""What keeps nodes from answering, said in few lines: every node is named, and what to do stands beside the reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from clusterctl.apply.execute import StepOutcome
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.facts.model.host import RootAccess
from clusterctl.report.text.failures import (
    KINDS_SHOWN,
    failure_lines,
    fault_lines,
    rootless_lines,
    step_lines,
)
from clusterctl.requirements.base import Decision, Status
from clusterctl.transport.base import Failure, FailureKind

UNKNOWN = (Decision("acs", Status.UNKNOWN, "can be read only by root"),)
MET = (Decision("acs", Status.MET, "clear"),)


def unknown_key(name: str, address: str) -> Failure:
    text = f"{name} (root@{address}:22): its ssh-ed25519 host key SHA256:{name}{address} is not in ~/.ssh/known_hosts"
    return Failure(FailureKind.HOST_KEY_UNKNOWN, text, f"`ssh-keyscan {address} >> ~/.ssh/known_hosts`")


def test_one_node_is_named_once_with_its_hint_below() -> None:
    failure = Failure(FailureKind.REFUSED, "gpu01 (root@10.0.0.1:22): connection refused", "is sshd running?")
    assert list(failure_lines({"gpu01": failure})) == [
        "gpu01: refused: root@10.0.0.1:22: connection refused",
        "    hint: is sshd running?",
    ]


def test_a_thousand_new_nodes_are_two_lines() -> None:
    failures = {f"gpu{i:04d}": unknown_key(f"gpu{i:04d}", f"10.0.{i // 250}.{i % 250}") for i in range(1000)}
    said, hint = failure_lines(failures)
    assert said.startswith(
        "gpu[0000-0999] (1000): host-key-unknown: root@10.0.0.0:22: its ssh-ed25519 host key"
    )
    assert said.endswith("[others differ in names or numbers]")
    assert hint == "    hint: `ssh-keyscan 10.0.0.0 >> ~/.ssh/known_hosts`"


@pytest.mark.parametrize("addresses", [("alpha.example.org", "beta.example.org"), ("10.0.0.1", "10.0.0.2")])
def test_where_a_node_is_does_not_keep_it_from_its_like(addresses: tuple[str, str]) -> None:
    failures = {
        name: Failure(FailureKind.TIMEOUT, f"{name} (me@{address}:22): no answer within 10 s")
        for name, address in zip(("a", "b"), addresses, strict=True)
    }
    assert len(list(failure_lines(failures))) == 1


def test_a_name_in_front_of_a_message_is_not_said_twice() -> None:
    failures = {
        name: Failure(FailureKind.ERROR, f"{name}: the docker engine does not answer") for name in ("a", "b")
    }
    assert list(failure_lines(failures)) == ["a,b (2): error: the docker engine does not answer"]


def test_different_reasons_stay_apart_and_a_hint_for_both_is_said_once() -> None:
    lines = list(
        failure_lines(
            {
                "n1": Failure(FailureKind.LOST, "the connection was lost", "is the node up?"),
                "n2": Failure(FailureKind.TIMEOUT, "no answer", "is the node up?"),
                "n3": Failure(FailureKind.LOST, "the connection was lost", "is the node up?"),
            }
        )
    )
    assert lines == [
        "n[1,3] (2): lost: the connection was lost",
        "    hint: is the node up?",
        "n2: timeout: no answer",
    ]


def test_no_kind_of_failure_makes_the_list_long_and_no_node_is_left_out() -> None:
    words = ["".join(chr(97 + (i // 26**k) % 26) for k in range(3)) for i in range(400)]
    failures = {f"n{i:03d}": Failure(FailureKind.ERROR, f"it said {word}") for i, word in enumerate(words)}
    lines = list(failure_lines(failures))
    assert len(lines) == KINDS_SHOWN + 1
    assert (
        lines[-1]
        == f"... and {400 - KINDS_SHOWN} more different failures (--json has them all): n[020-399] (380)"
    )


def facts(**details: str) -> dict[str, object]:
    """Facts of nodes that have no way to root, each for a reason (empty: it has one)."""
    ways = {name: RootAccess(1000, "none" if why else "sudo", why) for name, why in details.items()}
    return {name: SimpleNamespace(root=root) for name, root in ways.items()}


def test_why_root_is_missing_is_said_where_it_is_missed() -> None:
    asks = "not root, and sudo without a password was refused: sudo: a password is required"
    wrong = "sudo refused the password of me ($CLUSTERCTL_SUDO_PASSWORD) on n1"
    found = facts(n1=f"n1 (me@10.0.0.1:22): {wrong}", n2=asks, n3=asks, n4=asks, n5="")
    verdicts = {"n1": UNKNOWN, "n2": UNKNOWN, "n3": UNKNOWN, "n4": MET, "n5": UNKNOWN}
    refused, others, hint = rootless_lines(found, verdicts)  # type: ignore[arg-type]
    assert refused == f"n1: without root: me@10.0.0.1:22: {wrong}"
    assert others == f"n[2-3] (2): without root: {asks}"
    assert hint.endswith("; correct $CLUSTERCTL_SUDO_PASSWORD")


def test_nothing_is_said_of_root_where_nothing_is_unknown() -> None:
    assert list(rootless_lines(facts(n1="become: none"), {"n1": MET})) == []  # type: ignore[arg-type]


def test_steps_to_come_need_root_where_nothing_is_unknown() -> None:
    (line, hint) = rootless_lines(facts(n1="become: none", n2="become: none"), {"n1": MET, "n2": MET}, ["n2"])  # type: ignore[arg-type]
    assert line == "n2: without root: become: none"
    assert hint.startswith("    hint: every step needs root")


def test_what_steps_say_is_one_line_for_nodes_alike() -> None:
    step = StepOutcome("docker", "Install docker.io", AppliedStatus.FAILED)
    other = StepOutcome("docker", "Start docker", AppliedStatus.FAILED)
    told = [(f"gpu{i:03d}", step, f"apt-get (process {i}) holds the lock") for i in range(500)]
    assert list(step_lines([*told, ("gpu007", other, "it failed")])) == [
        f"gpu[000-499] (500): docker: Install docker.io: {told[0][2]} [others differ in names or numbers]",
        "gpu007: docker: Start docker: it failed",
    ]


def test_of_a_run_nodes_that_failed_alike_share_a_line_and_ranks_do_not() -> None:
    away = [
        Fault(
            FaultKind.NODE_UNREACHABLE,
            f"{name} (root@{name}.example.org:22) cannot be used: connection refused",
            node=name, hint="is sshd running?",
        )
        for name in ("alpha", "beta", "gpu7")
    ]  # fmt: skip
    died = [Fault(FaultKind.RANK_DIED, f"rank {rank} died", rank, "alpha") for rank in (0, 1)]
    assert list(fault_lines([*away, *died])) == [
        "failed: node-unreachable: alpha,beta,gpu7 cannot be used: connection refused",
        "failed: rank-died: rank 0 died",
        "failed: rank-died: rank 1 died",
        "hint: is sshd running?",
    ]


def test_failures_and_hints_of_a_run_that_differ_by_node_names_only_are_one_line_with_a_node_set() -> None:
    names = [f"gpu{number:02d}" for number in range(2, 65)]
    denied = [
        Fault(
            FaultKind.MESH,
            f"gpu01 cannot reach {name} (10.0.0.{number}) by SSH: Permission denied (publickey).",
            node=name, hint=f"add gpu01's key on {name}",
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    assert list(fault_lines(denied)) == [
        "failed: ssh-mesh: gpu01 cannot reach gpu[02-64] by SSH: Permission denied (publickey).",
        "hint: add gpu01's key on gpu[02-64]",
    ]
    slow = [replace(one, message=f"{one.message} after {index} s") for index, one in enumerate(denied[:2])]
    assert next(fault_lines(slow)).endswith("after 0 s [same on gpu03; names and numbers differ]")
    # A name is not found within another one.
    within = [replace(denied[0], node=name, message=f"{name}0 and {name}: lost") for name in ("n1", "n2")]
    assert next(fault_lines(within)).endswith("n10 and n1: lost [same on n2; names and numbers differ]")


def test_a_hint_that_names_its_node_names_all_nodes_of_its_line():
    def changed(name, inventory="fleet.yaml"):
        return Failure(
            FailureKind.HOST_KEY_CHANGED, f"{name}: changed", f"`forget {inventory} --limit '{name}'`"
        )

    lines = list(failure_lines({name: changed(name) for name in ("gpu01", "gpu02", "gpu03")}))
    assert lines == [
        "gpu[01-03] (3): host-key-changed: changed",
        "    hint: `forget fleet.yaml --limit 'gpu[01-03]'`",
    ]
    _, other = failure_lines({"gpu01": changed("gpu01"), "gpu02": changed("gpu02", "other.yaml")})
    assert other == "    hint: `forget fleet.yaml --limit 'gpu01'`"
