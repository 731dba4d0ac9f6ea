"""Plans as people read them: a sign per change, one block for nodes that show the same, and the size of the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_step import EVERY_KIND

from clusterctl.apply import carry
from clusterctl.apply.execute import StepOutcome
from clusterctl.apply.plan.file_diff import Present, after
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep
from clusterctl.apply.undo import UndoOutcome
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.report.text import of_view
from clusterctl.report.view import View
from clusterctl.requirements.steps import (
    Command,
    InstallPackages,
    Reboot,
    RestartUnit,
    WriteBlock,
    WriteFile,
    WriteValue,
)
from clusterctl.transport.base import HostMap
from clusterctl.views import plan as view_of_plan
from clusterctl.views import undo as view_of_undo


def _shown(plans, present=None):
    plan = Plan(tuple(NodePlan(node, tuple(steps)) for node, steps in plans.items()))
    return view_of_plan.changes_of(plan, present or {})


def _blocks(plans, present=None):
    return _text(_shown(plans, present)).splitlines()


def _text(nodes, width=None):
    return of_view.render(View("", tuple(view_of_plan.blocks(nodes))), width)


def _file(content="a\n", path="/etc/x"):
    return PlannedStep("acs", WriteFile(f"Write {path}", path, content))


def test_nodes_that_show_the_same_are_one_block_even_if_their_steps_differ():
    def key(node):
        return PlannedStep("ssh-mesh", Command("Make a key", ("make", f"clusterctl:{node}"), None))

    names = ("gpu01", "gpu02", "gpu03", "gpu04")
    assert _blocks({name: [key(name)] for name in names}) == [
        "gpu[01-04] (4 nodes):",
        "  ~ ssh-mesh  Make a key",
    ]


def test_nodes_without_steps_are_left_out():
    assert _blocks({"gpu01": [], "gpu02": [_file()], "gpu03": []})[0] == "gpu02:"
    assert _blocks({"gpu01": []}) == []


def test_a_file_that_needs_no_change_says_so():
    """The plan of a resumed run would otherwise show a change without its diff."""
    block = PlannedStep("acs", WriteBlock("Write a block", "/etc/y", "a", "here"))
    same = {
        "/etc/x": Present(True, "a\n", 0o644, 2),
        "/etc/y": Present(True, after(block.step, None), 0o600, 2),
    }
    assert _blocks({"gpu01": [_file(), block]}, {"gpu01": same}) == [
        "gpu01:",
        "  . acs  Write /etc/x (already as planned)",
        "  . acs  Write a block (already as planned)",
    ]
    assert view_of_plan.size_of(_shown({"gpu01": [_file(), block]}, {"gpu01": same})) == "no changes"
    assert view_of_plan.work_of(_shown({"gpu01": [_file()], "gpu02": [_file()]}, {"gpu01": same})) == (
        "1 change on 1 node"
    )
    unknown = {"/etc/x": Present(True, None, 0o644, 2)}
    assert "already" not in "\n".join(_blocks({"gpu01": [_file()]}, {"gpu01": unknown}))


def test_a_file_shows_whether_it_is_new_its_mode_and_its_diff():
    there = {"gpu02": {"/etc/x": Present(True, "b\n", 0o600, 2)}, "gpu01": {"/etc/x": Present(exists=False)}}
    assert _blocks({"gpu01": [_file()], "gpu02": [_file()], "gpu03": [_file()]}, there) == [
        "gpu01:",
        "  + acs  Write /etc/x (new file, mode 644)",
        "      + a",
        "",
        "gpu02:",
        "  ~ acs  Write /etc/x (mode 600 -> 644)",
        "      @@ -1 +1 @@",
        "      - b",
        "      + a",
        "",
        "gpu03:",
        "  + acs  Write /etc/x",
        "      + a",
    ]


def test_lines_wrap_at_the_terminal_below_their_text():
    plan = _shown({"gpu01": [_file(content="a" * 90, path="/etc/sysconfig/rdma/cluster")]})
    assert _text(plan, 30).splitlines() == [
        "gpu01:",
        "  + acs  Write",
        "         /etc/sysconfig/rdma/cluster",
        f"      + {'a' * 90}",
    ]


def test_different_diffs_of_one_change_stand_below_it_with_their_nodes():
    words = ("alpha", "alpha", "beta", "gamma", "delta", "epsilon")
    there = {f"n{i}": {"/etc/x": Present(True, f"{w}\n", 0o644, 9)} for i, w in enumerate(words)}
    lines = _blocks({name: [_file()] for name in there}, there)
    assert [line.strip() for line in lines[1:]] == [
        "~ acs  Write /etc/x",
        "on n[0-1]:", "@@ -1 +1 @@", "- alpha", "+ a",
        "on n2:", "@@ -1 +1 @@", "- beta", "+ a",
        "on n3:", "@@ -1 +1 @@", "- gamma", "+ a",
        "... 2 more variants on other nodes",
    ]  # fmt: skip


def test_diffs_that_differ_in_numbers_are_shown_once():
    there = {f"n{i}": {"/etc/x": Present(True, f"limit = {i}00\n", 0o644, 9)} for i in range(1, 257)}
    assert _blocks({name: [_file()] for name in there}, there) == [
        "n[1-256] (256 nodes):",
        "  ~ acs  Write /etc/x",
        "      @@ -1 +1 @@",
        "      - limit = 100",
        "      + a",
        "      (of n1; the others differ in names or numbers)",
    ]


def test_values_show_what_they_were_without_splitting_the_block():
    def step(was):
        return [PlannedStep("buffers", WriteValue("Set rmem to 9", "/proc/rmem", "9", was))]

    assert _blocks({"a": step("1"), "b": step("2")})[1] == "  ~ buffers  Set rmem to 9 (was 1 or 2)"
    assert _blocks({"a": step("1"), "b": step("1")})[1] == "  ~ buffers  Set rmem to 9 (was 1)"
    assert _blocks({"a": step("1\t2"), "b": step("1\t2")})[1] == "  ~ buffers  Set rmem to 9 (was 1 2)"
    many = _blocks({f"n{i}": step(str(i)) for i in range(9)})
    assert many == ["n[0-8] (9 nodes):", "  ~ buffers  Set rmem to 9 (was 0; the others differ)"]


def test_steps_that_differ_by_processor_are_one_line():
    steps = [
        PlannedStep("cpu-governor", WriteValue(f"Set the governor of cpu{i} to performance", f"/s/cpu{i}", "p", "s"))
        for i in range(128)
    ]  # fmt: skip
    assert _blocks({"n1": steps}) == [
        "n1:",
        "  ~ cpu-governor  Set the governor of cpu[0-127] to performance (was s)",
    ]


def test_packages_that_the_sentence_does_not_name_are_listed():
    step = PlannedStep("docker", InstallPackages("Install docker", "apt", ("docker.io", "containerd")))
    assert _blocks({"n1": [step]})[1:] == [
        "  + docker  Install docker",
        "      packages: docker.io containerd",
    ]
    step = PlannedStep("acs", InstallPackages("Install pciutils for setpci", "apt", ("pciutils",)))
    assert _blocks({"n1": [step]})[1:] == ["  + acs  Install pciutils for setpci"]


def test_packages_of_a_directory_have_versions_and_the_copies_their_size():
    files = ("libx_2%3a1.0-3_amd64.deb", "chrony_4.3-2_amd64.deb", "docker.io_20.10_amd64.deb")
    folder = carry.Folder(
        Path("/debs"), tuple((file, "0" * 64) for file in files), (3 << 20, 1 << 19, 1 << 20)
    )
    steps = [
        PlannedStep("docker", InstallPackages("Install docker", "apt", ("docker.io", "libx"), "/debs")),
        PlannedStep("time-sync", InstallPackages("Install chrony", "apt", ("chrony",), "/debs")),
    ]
    plan = Plan(tuple(NodePlan(node, tuple(steps)) for node in ("n1", "n2")))
    copied = {node: {"/debs": folder} for node in ("n1", "n2")}
    assert _text(view_of_plan.changes_of(plan, {}, copied), 80).splitlines()[1:] == [
        "  + docker     Install docker",
        "      packages: docker.io 20.10 libx 2:1.0-3",
        "      note: 3 files, 4.5 MiB, copied to each node from /debs",
        "  + time-sync  Install chrony",
        "      packages: chrony 4.3-2",
    ]


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("repo/kernel-headers-5.14.0-427.el9.x86_64.rpm", "5.14.0-427.el9"),
        ("a_1.2_all.deb", "1.2"),
        ("a.deb", ""),
        ("a-1.rpm", ""),
        ("repodata/repomd.xml", ""),
    ],
)
def test_the_version_of_a_package_is_read_from_its_file_name(file, version):
    assert carry.version_of(file) == version


def test_the_size_counts_restarts_and_reboots_and_names_what_is_disturbed():
    restart = PlannedStep("docker", RestartUnit("Restart docker", "docker.service"))
    boot = PlannedStep("driver", Reboot("Reboot with the driver"))
    nodes = _shown({"gpu01": [_file(), restart], "gpu02": [restart, boot], "gpu03": []})
    assert view_of_plan.size_of(nodes) == "4 changes on 2 nodes, 2 restarts, 1 reboot"
    assert view_of_plan.disturbed(nodes) == [
        "Services that restart: docker.service on gpu[01-02]",
        "Nodes that reboot: gpu02",
    ]
    assert view_of_plan.size_of(_shown({"gpu03": []})) == "no changes"


@pytest.mark.parametrize("step", EVERY_KIND, ids=lambda step: step.kind)
def test_every_kind_of_step_has_a_line(step):
    line = _blocks({"n1": [PlannedStep("r", step)]})[1]
    assert line[:5] in ("  + r", "  ~ r", "  - r")


def _undo(run, *steps):
    return UndoOutcome(run, steps)


def _undo_text(outcomes, planned=None, **how):
    found = HostMap(outcomes)
    view = (
        view_of_undo.plan(found, ("clusterctl", "undo", "--local"), **how)
        if planned is None
        else view_of_undo.ended(found, HostMap(planned), (), "changed: 0", **how)
    )
    return of_view.render(view).splitlines()


def _step(undo, **more):
    return StepOutcome("r", "Write /etc/x", AppliedStatus.PLANNED, undo=undo, **more)


def test_an_undo_says_what_it_will_do():
    outcomes = {
        name: _undo(
            "RUN",
            _step("- remove /etc/x"),
            _step("~ restore /etc/y (644 root)", diff=("- new", "+ old"), notes=("by hand",)),
            _step("~ restart docker.service"),
            _step(". a reboot cannot be taken back"),
        )
        for name in ("gpu01", "gpu02")
    }
    assert _undo_text(outcomes) == [
        "gpu[01-02] (2 nodes): undo run RUN:",
        "  - r  remove /etc/x",
        "  ~ r  restore /etc/y (644 root)",
        "      - new",
        "      + old",
        "      note: by hand",
        "  ~ r  restart docker.service",
        "  . r  a reboot cannot be taken back",
        "",
        "Services that restart: docker.service on gpu[01-02]",
        "Plan: 6 changes on 2 nodes, 2 restarts, 0 reboots",
    ]


def test_what_was_undone_is_listed_in_the_words_of_the_plan():
    listed = {"gpu01": _undo("RUN", _step("- remove /etc/x"))}
    done = {"gpu01": _undo("RUN", StepOutcome("r", "Write /etc/x", AppliedStatus.CHANGED))}
    assert _undo_text(done, listed) == [
        "Undone: 1 change on 1 node, 0 restarts, 0 reboots",
        "",
        "gpu01:",
        "  - r  remove /etc/x",
        "",
        "changed: 0",
    ]
    assert _undo_text(done, listed, seen=True)[1:] == ["", "changed: 0"]
    failed = {"gpu01": _undo("RUN", StepOutcome("r", "Write /etc/x", AppliedStatus.FAILED, reason="no"))}
    assert _undo_text(failed, listed) == ["gpu01: r: Write /etc/x: no", "", "changed: 0"]


def test_a_line_of_a_node_cannot_imitate_another_line():
    lines = _undo_text({"n1": _undo("RUN", _step("~ write 1\n  - r  remove /etc/passwd to /proc/x"))})
    assert lines[1] == "  ~ r  write 1 - r remove /etc/passwd to /proc/x"


def test_a_note_of_an_undo_names_few_of_many_files():
    files = ["/etc/a", "/etc/b c", *(f"/etc/{n}" for n in range(38))]
    note = f"removes their remaining files in /etc, unless changed: {' '.join(files)}"
    few = "removes their remaining files in /etc, unless changed: /etc/a /etc/b c and 38 more; -v lists them"
    short = "removes their remaining files in /etc, unless changed: /etc/a /etc/b /etc/c"
    outcomes = {"n1": _undo("RUN", _step("- remove /etc", notes=(note, short)))}
    assert _undo_text(outcomes)[2:4] == [f"      note: {few}", f"      note: {short}"]
    assert _undo_text(outcomes, every=True)[2:4] == [f"      note: {note}", f"      note: {short}"]
