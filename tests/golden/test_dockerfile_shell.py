"""Every command of the Dockerfiles in ``render/`` is sound shell, also those that no engine here can run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

CASES = sorted((Path(__file__).parent / "render").glob("dockerfile-*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_command_parses(path: Path) -> None:
    text = yaml.safe_load(path.read_text(encoding="utf-8"))["expected"]
    commands = re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        done = subprocess.run(
            ("sh", "-n", "-c", command), capture_output=True, text=True, timeout=10, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command


def test_each_template_of_the_dockerfile_is_in_one_of_them() -> None:
    texts = "".join(yaml.safe_load(path.read_text(encoding="utf-8"))["expected"] for path in CASES)
    for mark in (
        "AS packages",
        "libibverbs",
        "rpm -Uhv",
        "bash accl",
        "AS nccl-tests",
        "ENV ",
        "sed -i -e",
        "start-sshd",
    ):
        assert mark in texts
