"""The generated script: any text survives the shell exactly, and the runner's own text is sound."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from every_step import KEYS
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clusterctl import config
from clusterctl.apply import records, script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.errors import PlanError
from clusterctl.requirements import steps as step_kinds
from clusterctl.requirements.steps import (
    Command,
    RestartUnit,
    SetRegister,
    Step,
    StepKind,
    WriteFile,
    WriteValue,
)

NONCE = "feedfacefeedface"

hostile = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40),
    st.sampled_from(
        [
            "$(touch /tmp/never)", "`id`", "'; exit 9; '", '"', "\\", "\n\n", "a\r\nb", "${IFS}", "!!", "~root", "*",
            "-n", "--", "@feedfacefeedface 0 done ", "END_OF_TREE", "\t", "é\u202e", "%s%n", "#", "x\n",
        ]
    ),
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=hostile, description=hostile, argument=hostile)
@example(content="'\n$(", description="'; rm -rf x; '", argument="-e")
def test_no_value_reaches_the_shell_unquoted(content, description, argument):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a 'b' $(c) \"d\" *"
        echo = Path(folder) / "echo"
        steps = (
            PlannedStep("t", WriteFile(description, str(path), content)),
            PlannedStep(
                "t",
                Command(description, ("sh", "-c", 'printf %s "$1" >"$2"', "sh", argument, str(echo)), None),
            ),
        )
        text = script.apply_script(
            script.Header("run", "who is@here'", NONCE, f"{folder}/state dir"), NodePlan("n", steps)
        )
        done = subprocess.run(
            ("sh", "-s"), input=text.encode(), capture_output=True, timeout=30, check=False, cwd=folder
        )
        found = [records.parse(line, NONCE) for line in done.stdout.decode(errors="replace").splitlines()]
        assert [(r.number, r.event.value) for r in found] == [
            (0, "start"), (1, "begin"), (1, "changed"), (2, "begin"), (2, "changed"), (0, "done"),
        ]  # fmt: skip
        assert path.read_bytes() == content.encode()
        assert echo.read_bytes() == argument.encode()
        kept = Path(folder) / "state dir/journal/run/0001/description"
        assert kept.read_bytes() == description.encode()
        assert {p.name for p in Path(folder).iterdir()} == {path.name, "echo", "state dir"}


def test_a_nul_is_refused():
    step = PlannedStep("t", WriteFile("d", "/x", "a\0b"))
    with pytest.raises(PlanError, match="NUL"):
        script.apply_script(script.Header("r", "o", NONCE), NodePlan("n", (step,)))


def test_a_step_is_known_by_what_it_changes_not_by_the_value():
    key = script.step_key
    assert key(PlannedStep("a", WriteFile("d", "/x", "1"))) == key(
        PlannedStep("b", WriteFile("e", "/x", "2"))
    )
    assert key(PlannedStep("a", WriteValue("d", "/x", "1", "0"))) != key(
        PlannedStep("a", WriteFile("d", "/x", "1"))
    )
    one = SetRegister("d", "0000:00:01.0", "ECAP_ACS+6.w", "0000", "001d")
    assert key(PlannedStep("a", one)) != key(
        PlannedStep("a", SetRegister("d", "0000:00:02.0", *one_rest(one)))
    )
    restart = RestartUnit("d", "ssh.service")
    assert key(PlannedStep("a", restart)) != key(PlannedStep("b", restart))


def one_rest(step):
    return step.register, step.value, step.prior


def test_the_call_that_acts_is_the_last_line():
    for text, last in (
        (script.apply_script(script.Header("r", "o", NONCE), NodePlan("n", ())), "main_apply"),
        (script.undo_script(script.Header("r", "o", NONCE)), "main_undo"),
        (script.list_script(script.Header("r", "o", NONCE)), "list_undo"),
    ):
        assert text.endswith(f"\n{last}\n")
        assert text.count(f"\n{last}\n") == 1


@pytest.mark.parametrize("name", [*script.COMMON, *script.APPLY, *script.UNDO])
@pytest.mark.parametrize("shell", [("dash", "-n"), ("busybox", "sh", "-n"), ("bash", "--posix", "-n")])
def test_every_shell_reads_the_runner(name, shell):
    text = (script.RUNNER / name).read_text()
    done = subprocess.run(shell, input=text.encode(), capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_no_two_parts_of_the_runner_give_one_name_to_two_functions():
    names = [
        name
        for part in (*script.COMMON, "file_batch.sh")
        for name in re.findall(r"^(\w+)\(\)", (script.RUNNER / part).read_text(), re.MULTILINE)
    ]
    assert sorted(names) == sorted(set(names))


KIND_CLASSES = [
    found
    for found in vars(step_kinds).values()
    if isinstance(found, type) and issubclass(found, StepKind) and found is not StepKind
]
KINDS = [next(f.default for f in fields(found) if f.name == "kind") for found in KIND_CLASSES]


def test_every_class_of_a_step_is_one_kind_of_the_plan():
    assert set(KIND_CLASSES) == set(get_args(Step))
    assert len(set(KINDS)) == len(KINDS) > 10
    for found in KIND_CLASSES:
        names = [f.name for f in fields(found)]
        assert (names[0], names[-1]) == ("description", "kind"), found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["so", "prior", "do", "would", "undo"])
def test_every_kind_of_step_has_its_functions(kind, part):
    text = "".join((script.RUNNER / name).read_text() for name in script.COMMON)
    assert f"\n{part}_{kind.replace('-', '_')}() {{" in text


@pytest.mark.parametrize("kind", [*KINDS, "of-another-version"])
def test_undo_knows_what_the_entry_of_every_kind_must_hold(kind):
    text = (script.RUNNER / "seal.sh").read_text() + 'needed_for "$1" && printf %s "$filled"'
    done = subprocess.run(
        ("sh", "-c", text, "sh", kind.replace("-", "_")),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode == 0, done.stdout.startswith("key kind begin")) == ((kind in KINDS,) * 2)


def test_every_kind_of_step_keeps_its_key_in_journals():
    assert {type(step) for step in KEYS} == set(KIND_CLASSES)
    assert {step: script.step_key(PlannedStep("r", step)) for step in KEYS} == KEYS


def test_a_node_reaches_the_limit_of_a_program_before_the_controller_gives_up():
    limits = [
        int(found) for found in re.findall(r"limit (\d+) ", script._text(*script.COMMON, *script.APPLY))
    ]
    assert max(limits) == 3000 < config.APPLY_TIMEOUT_S.default
