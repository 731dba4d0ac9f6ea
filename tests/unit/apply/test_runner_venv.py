"""Environments of Python: made without pip, with the collective_core of a wheel that was copied to the node."""

from __future__ import annotations

import hashlib
import sys
import zipfile

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import MakeVenv

LIBRARY = "def library_path():\n    return 'libc.so.6'\n"


def carried_wheel(runner, version, run, **more):
    """Put a wheel where the controller copies it for a run; return the step that installs it."""
    name = f"collective_core-{version}-py3-none-any.whl"
    folder = runner.state / "carried" / run / "core"
    (folder / "files").mkdir(parents=True)
    files = {
        f"collective_core-{version}.dist-info/METADATA": f"Version: {version}\n",
        "collective_core/__init__.py": LIBRARY,
        "collective_core/bin/all_reduce_perf": "#!/bin/sh\n",
        **more,
    }
    with zipfile.ZipFile(folder / "files" / name, "w") as wheel:
        for file, text in files.items():
            member = zipfile.ZipInfo(file)
            member.external_attr = (0o100775 if "/bin/" in file else 0o100664) << 16
            wheel.writestr(member, text)
    digest = hashlib.sha256((folder / "files" / name).read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  {name}\n")
    return MakeVenv("a venv", str(runner.root / "opt/venv"), sys.executable, f"made {version}", name)


def apply(runner, step, run):
    plan = NodePlan("n", (PlannedStep("test", step),))
    return runner.run_text(script.apply_script(runner.header(run), plan, carried={step.wheel: "core"}))


def packages(runner):
    (folder,) = (runner.root / "opt/venv/lib").glob("python3*/site-packages")
    return folder


def test_collective_core_is_unpacked_without_pip_and_replaced_by_another(runner):
    first = carried_wheel(runner, "1.0", "run1", **{"collective_core/old.py": ""})
    assert apply(runner, first, "run1").events(1)[-1] == (1, "changed")
    found = {
        path.name: path.stat().st_mode & 0o777 for path in packages(runner).glob("*/*") if path.is_file()
    }
    assert found == {"__init__.py": 0o644, "old.py": 0o644, "METADATA": 0o644}
    assert (packages(runner) / "collective_core/bin/all_reduce_perf").stat().st_mode & 0o777 == 0o755
    assert not list((runner.root / "opt/venv/bin").glob("pip*"))
    second = carried_wheel(runner, "2.0", "run2")
    assert apply(runner, second, "run2").events(1)[-1] == (1, "changed")
    assert {path.name for path in packages(runner).iterdir()} == {
        "collective_core", "collective_core-2.0.dist-info",
    }  # fmt: skip
    assert not (packages(runner) / "collective_core/old.py").exists()
    assert runner.undo("run2").returncode == 0 and (runner.root / "opt/venv").is_dir()
    assert runner.undo("run1").returncode == 0 and not (runner.root / "opt").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def library_path():\n    return '/none.so'\n", "/none.so: cannot open"),
        (None, "do not match their SHA256SUMS"),
    ],
)
def test_a_wheel_that_is_damaged_or_does_not_load_leaves_no_environment(runner, text, reason):
    step = carried_wheel(runner, "1.0", "run1", **{"collective_core/__init__.py": text or LIBRARY})
    if text is None:
        with (runner.state / "carried/run1/core/files" / step.wheel).open("ab") as wheel:
            wheel.write(b"more")
    ran = apply(runner, step, "run1")
    assert ran.events(1)[-1] == (1, "failed") and reason in ran.detail("failed")
    assert not (runner.root / "opt/venv").exists()
