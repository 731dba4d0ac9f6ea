"""Fixtures of the probe's tests: run it for real under a shell, as any user, over any /sys."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from clusterctl.facts import gather, probe
from clusterctl.facts.model.node import NodeFacts

SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}


def run_probe(
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str] | None = None,
    before: str = "",
    allow_sudo: bool = True,
    replacing: Sequence[tuple[str, str]] = (),
) -> tuple[probe.Answer, NodeFacts]:
    """Feed the probe to a shell and parse what it prints; ``before`` is noise printed ahead of it.

    ``replacing`` exchanges pieces of the script, such as a deadline that no test can wait for.
    """
    nonce = secrets.token_hex(16)
    script = before + probe.build_script(nonce, allow_sudo=allow_sudo)
    for old, new in replacing:
        assert old in script
        script = script.replace(old, new)
    done = subprocess.run(
        argv,
        input=script.encode(),
        capture_output=True,
        timeout=120,
        env=env or os.environ,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert before or done.stderr == b""
    answer = probe.split(done.stdout.decode(errors="replace"), nonce)
    facts = gather.facts_from("node", answer.sections, answer.root, gathered_at=0.0, duration_s=0.0)
    return answer, facts


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, tier_unavailable: Callable[[str], None]) -> tuple[str, ...]:
    """Each shell that nodes have as sh."""
    argv = SHELLS[request.param]
    if subprocess.run((*argv, "-c", ":"), capture_output=True, timeout=10, check=False).returncode:
        tier_unavailable(f"{argv[0]} is not installed")
    return argv


@pytest.fixture
def probe_run() -> Callable[..., tuple[probe.Answer, NodeFacts]]:
    """The function ``run_probe``."""
    return run_probe


@pytest.fixture(scope="session")
def namespaces(tier_unavailable: Callable[[str], None]) -> None:
    """Mount namespaces, in which a test may put its own files over the system's."""
    if subprocess.run(("unshare", "-m", "true"), capture_output=True, timeout=10, check=False).returncode:
        tier_unavailable("mount namespaces need root (unshare -m)")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user may enter (pytest's own are its user's alone)."""
    with tempfile.TemporaryDirectory(prefix="facts-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
