"""What requirements do on nodes with hostile settings: no shell text and no file says more than the setting.

Every recorded case that has steps is judged again with every hostile text that the inventory accepts in every text
field of ``requirements``. Shell texts among the steps run in real shells, as the user ``nobody``, where every
program is a stand-in that only notes its words; files are held to the rules of what reads them.
"""

from __future__ import annotations

import copy
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_inventories as hostile
import pytest
from case_facts import facts_of
from pydantic import ValidationError

from clusterctl import resources
from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.errors import ClusterctlError, InventoryError
from clusterctl.inventory import load
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.steps import Command, InstallPackages, Sent, Step, WriteBlock, WriteFile

CASES = Path(__file__).resolve().parents[1] / "requirements"
SHELLS = (("dash",), ("bash", "--posix"), ("busybox", "sh"))
NOBODY = 65534


@dataclass(frozen=True)
class Setting:
    """A recorded case, and the setting that was made hostile in it."""

    case: str
    path: tuple[str | int, ...]
    text: str


def accepted(folder: Path) -> Iterator[tuple[tuple[str | int, ...], bool, str]]:
    """Yield path (below ``requirements``), whether it is a key, and text of what an inventory accepts."""
    for place in hostile.fields():
        if place.path[:2] != ("defaults", "requirements"):
            continue
        for text in hostile.HOSTILE:
            try:
                load.from_text(hostile.with_text(place, text, folder), "inventory.yaml", folder)
            except InventoryError:
                continue
            yield place.path[2:], place.is_key, text


def put(tree: Any, path: tuple[str | int, ...], is_key: bool, text: str) -> Any:
    result = copy.deepcopy(tree)
    here = result
    for part, after in itertools.pairwise(path):
        if isinstance(part, int):
            here.extend([] if here else [{}])
            here = here[part]
        else:
            here = here.setdefault(part, [] if isinstance(after, int) else {})
    if is_key:
        here[text] = "1"
    elif isinstance(here, list):
        here[:] = [text]
    else:
        here[path[-1]] = text
    return result


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> dict[Step, Setting]:
    """Return every step that a hostile setting changed, with the setting."""
    texts = list(accepted(tmp_path_factory.mktemp("settings")))
    found: dict[Step, Setting] = {}
    seen: dict[str, int] = {}
    for path in sorted(CASES.glob("*/*.yaml")):
        case = resources.table(path)
        if not case["expect"].get("steps") or path.parent.name not in ALL:
            continue
        requirement = ALL[path.parent.name]
        facts = facts_of(case.get("facts", {}))
        peers = {n: facts_of({**case.get("facts", {}), **of}) for n, of in case.get("peers", {}).items()}
        given = {"name": "n1", "address": "n1", **case.get("node", {})}
        others = tuple(Node(name=name, address=name) for name in peers)

        def steps(settings: Any) -> tuple[Step, ...]:
            node = Node.model_validate({**given, "requirements": settings})  # noqa: B023
            together = Fleet((node, *others), {"n1": facts, **peers})  # noqa: B023
            return requirement.decide(facts, node, together).steps  # noqa: B023

        before = set(steps(given.get("requirements", {})))
        own = {path.parent.name.replace("-", "_"), "packages"}
        seen[path.parent.name] = seen.get(path.parent.name, 0) + 1
        for place, is_key, text in texts:
            if place[0] not in own and seen[path.parent.name] > 1:
                continue  # settings of another requirement: one case will do
            try:
                after = steps(put(given.get("requirements", {}), place, is_key, text))
            except (ValidationError, ClusterctlError):
                continue
            for step in after:
                if step not in before:
                    found.setdefault(step, Setting(f"{path.parent.name}/{path.stem}", place, text))
    return found


def shell_texts(step: Step) -> Iterator[tuple[str, ...]]:
    """Yield every command of a step that is a shell's."""
    if isinstance(step, Command):
        for argv in (step.argv, step.undo, step.guard):
            if argv and argv[0] in ("sh", "bash") and "-c" in argv:
                yield argv
    if isinstance(step, (WriteFile, WriteBlock)) and step.content.startswith("#!"):
        yield ("sh", "-c", step.content, step.path)


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a stand-in for every program of this machine; each notes that it was called."""
    folder = tmp_path_factory.mktemp("stand-ins")
    program = folder / "program"
    program.write_text('#!/bin/sh\nprintf \'%s\\n\' "${0##*/} $*" >>"$NOTED"\n')
    program.chmod(0o755)
    for place in ("/bin", "/usr/bin", "/sbin", "/usr/sbin"):
        for path in Path(place).iterdir() if Path(place).is_dir() else ():
            if not (folder / path.name).exists():
                (folder / path.name).symlink_to(program)
    for path in (folder, *folder.parents):
        if str(path).startswith("/tmp/"):
            path.chmod(0o755)
    return folder


def test_shell_texts_run_nothing_that_a_setting_names(
    changed: dict[Step, Setting], stand_ins: Path, tmp_path: Path
) -> None:
    texts = {
        argv: why
        for step, why in changed.items()
        for argv in shell_texts(step)
        if any(why.text in word for word in argv)
    }
    here, noted = tmp_path / "here", tmp_path / "noted"
    here.mkdir(mode=0o777)
    here.chmod(0o777)
    noted.touch()
    noted.chmod(0o666)
    for path in (tmp_path, *tmp_path.parents):
        if str(path).startswith("/tmp/"):
            path.chmod(0o755)
    for argv, why in texts.items():
        for shell in SHELLS:
            binary = shutil.which(shell[0])
            assert binary, f"{shell[0]} is missing: tests/prerequisites.sh installs it"
            root = os.geteuid() == 0
            done = subprocess.run(
                (binary, *shell[1:], *argv[1:]),
                cwd=here,
                env={"PATH": str(stand_ins), "NOTED": str(noted), "HOME": str(here)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30,
                check=False,
                user=NOBODY if root else None,
                group=NOBODY if root else None,
                extra_groups=() if root else None,
            )
            assert "yntax error" not in done.stderr.decode(), (why, argv)
            assert f"touch {hostile.CANARY}" not in noted.read_text(), (why, argv)
            assert not (here / hostile.CANARY).exists(), (why, argv)


def test_no_setting_becomes_an_option(changed: dict[Step, Setting]) -> None:
    for step, why in changed.items():
        if isinstance(step, InstallPackages):
            assert not [name for name in step.packages if name.startswith("-")], why
        if isinstance(step, Command):
            for argv in (step.argv, step.undo or (), step.guard or ()):
                before_dashes = argv[: argv.index("--")] if "--" in argv else argv
                assert not set(before_dashes) & {text for text in hostile.HOSTILE if text.startswith("-")}, (
                    why
                )


# What in a value would mean something to the reader of the file (systemd.syntax(7), exports(5), sshd(8),
# chrony.conf(5), timesyncd.conf(5), sysctl.d(5), limits.conf(5)). Line breaks never get past the inventory.
MEANINGFUL = (
    (r"/systemd/.*\.(service|conf|timer|mount)$", r"(?<!%)%(?!%)|[\\\"'$]"),
    (r"/exports(\.d/|$)", r"[()*#\\\"'\s]"),
    (r"authorized_keys$", r"[\"\s,]"),
    (r"chrony|timesyncd|ntp\.conf", r"[\s#%]"),
    (r"limits\.d/", r"[\s#]"),
    (r"sources\.list|\.repo$|\.sources$", r"[\s#\[\]$]"),
)


def test_files_say_no_more_than_the_setting(changed: dict[Step, Setting]) -> None:
    for step, why in changed.items():
        if not isinstance(step, (WriteFile, WriteBlock)):
            continue
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", step.content), why
        for name, meaning in MEANINGFUL:
            if re.search(name, step.path) and why.text in step.content:
                assert not re.search(meaning, why.text), (why, step.path, step.content)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_runner_is_handed_every_word_whole(
    shell: tuple[str, ...], changed: dict[Step, Setting], tmp_path: Path
) -> None:
    """The generated calls, with functions that note their words instead of the runner's."""
    steps = [
        step
        for step in changed
        if step.kind not in ("put-tree", "reboot") and not getattr(step, "folder", None)
    ]
    planned = tuple(PlannedStep("docker", step) for step in steps)
    text = script.apply_script(script.Header("run", "me", "feedfacefeedface"), NodePlan("n", planned))
    calls = text[text.index("\nall_steps() {") : text.rindex("main_apply")]
    out = tmp_path / "out"
    (tmp_path / "here").mkdir()
    noting = f"step() {{ printf '%s\\000' \"$@\" >>'{out}'; printf '\\001\\000' >>'{out}'; }}\n"
    # Several files in a row come as one call, with eight words for each.
    of_one = 'step "$1" "$2" "$3" write_file "$4" "$5" "$6" "$7" "$8"'
    noting += f"files() {{ while [ $# -ge 8 ]; do {of_one}; shift 8; done; }}\n"
    done = subprocess.run(
        (*shell, "-s"),
        input=(noting + calls + "all_steps\n").encode(),
        cwd=tmp_path / "here",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    read = [chunk.split(b"\0")[:-1] for chunk in out.read_bytes().split(b"\1\0")[:-1]] if steps else []
    assert len(read) == len(steps)
    for words, one in zip(read, planned, strict=True):
        wanted = (one.step.kind.replace("-", "_"), one.step.description, *one.step.arguments(Sent()))
        assert words[3:] == [word.encode() for word in wanted], changed[one.step]
    assert list((tmp_path / "here").iterdir()) == []


def test_the_settings_reach_the_steps(changed: dict[Step, Setting]) -> None:
    """The other tests would prove nothing if no setting changed any step."""
    assert len(changed) > 20
    assert len({why.case.partition("/")[0] for why in changed.values()}) >= 3
