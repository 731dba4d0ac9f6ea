"""Nothing is fetched without a checksum or the signature of a key that was known beforehand.

The steps of every recorded case are looked at, and the text of everything that ships: a new way to fetch something
fails here until it has been put in its place below, with what proves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_facts import facts_of

from clusterctl import resources
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.steps import Command, Step, WriteBlock, WriteFile

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "requirements"
FETCHES = re.compile(
    r"\b(curl|wget|aria2c|download-file|urlopen|urllib|requests\.(get|post)|httpx|git clone|docker pull|podman pull"
    r"|pip3? install|npm install|scp |rsync )"
)
# Where a word of fetching may stand, and the words that prove what is fetched there.
PROVEN = {
    "clusterctl/requirements/signing_key.py": ("--show-keys", 'if [ "$found" != "$2" ]', 'rm -f "$new"'),
    "clusterctl/requirements/packages.py": ("SHA256:", "sha256sum -c --status"),
    "clusterctl/facts/subjects/docker.py": (
        "--unix-socket",
    ),  # the engine of the node itself; nothing is kept
    "clusterctl/facts/subjects/software.py": ('"curl"',),  # only looks whether it is there
    "clusterctl/text/secret/shapes.py": ("(?:curl|wget)",),  # only looks for its logins in what was said
    "clusterctl/images/packages.py": ("if wanted.sha256 is None:", "if sha256_of(path) != wanted.sha256:"),
    "clusterctl/images/distribution/distribute.py": (
        "ImageError",
    ),  # the node's own docker, from the registry of the image's name
    "clusterctl/images/engine.py": ("urllib3.exceptions.HTTPError",),  # what docker's client raises, by name
    # Text of a variable in the form of a query; nothing is fetched.
    "clusterctl/launch/foreign_library.py": ("urlencode",),
    "clusterctl/workloads/foreign_library.py": ("parse_qsl",),
    # Hints to the reader.
    "clusterctl/artifacts/dockerfile.py": ("as for docker pull",),
    "clusterctl/core_wheel.py": ("pip install",),
    "clusterctl/launch/preflight.py": ("pip install",),
    "clusterctl/resources.py": ("pip install",),
}
# What turns verification off, and the one place where packages come from the controller with their SHA256SUMS.
UNVERIFIED = re.compile(
    r"trusted=yes|Trusted:\s*yes|(?<!repo_)gpgcheck=0|--nogpgcheck|--no-gpg-checks|allow-unauthenticated"
    r"|AllowInsecure|sslverify=(0|false)|--insecure|curl\s[^\n]*\s-k\b|--no-check-certificate"
    r"|StrictHostKeyChecking[= ]no|UserKnownHostsFile[= ]/dev/null|verify=False|GIT_SSL_NO_VERIFY"
)
CARRIED = {"clusterctl/apply/runner/packages.sh": "sha256sum"}


def shipped() -> Iterator[tuple[str, str]]:
    for folder in ("clusterctl", "templates"):
        for path in sorted((ROOT / folder).rglob("*")):
            # The catalogue of known errors quotes what people ran; nothing of it is run.
            if path.is_file() and path.suffix != ".pyc" and "known_errors" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def code(text: str) -> str:
    """Leave out comments: they may speak of anything."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def test_every_place_that_fetches_is_known_and_proves_what_it_got() -> None:
    found = {name for name, text in shipped() if FETCHES.search(code(text))}
    assert found <= set(PROVEN), f"a new way to fetch: {found - set(PROVEN)}"
    for name in found:
        text = (ROOT / name).read_text()
        missing = [word for word in PROVEN[name] if word not in text]
        assert not missing, (name, missing)


def test_verification_is_never_turned_off() -> None:
    for name, text in shipped():
        for number, line in enumerate(code(text).splitlines(), start=1):
            if UNVERIFIED.search(line):
                assert name in CARRIED, (name, number, line)
                assert CARRIED[name] in text, name


@pytest.fixture(scope="module")
def steps() -> dict[Step, str]:
    """Return every step of every recorded case, with the case."""
    found: dict[Step, str] = {}
    for path in sorted(CASES.glob("*/*.yaml")):
        case = resources.table(path)
        if path.parent.name not in ALL or not case["expect"].get("steps"):
            continue
        facts = facts_of(case.get("facts", {}))
        node = Node.model_validate({"name": "n1", "address": "n1", **case.get("node", {})})
        decision = ALL[path.parent.name].decide(facts, node, Fleet((node,), {"n1": facts}))
        for step in decision.steps:
            found.setdefault(step, f"{path.parent.name}/{path.stem}")
    return found


def test_every_step_that_fetches_compares(steps: dict[Step, str]) -> None:
    fetching = 0
    for step, case in steps.items():
        if isinstance(step, Command) and FETCHES.search(" ".join(step.argv)):
            fetching += 1
            text = " ".join(step.argv)
            by_sum = re.search(r"\b[0-9a-f]{64}\b", text) and "sha256sum -c" in text
            by_fingerprint = re.search(r"\b[0-9A-F]{40}\b", text) and 'if [ "$found" != "$2" ]' in text
            assert by_sum or by_fingerprint, (case, step)
            # What failed the comparison is not left where a later run would find it.
            assert "rm -f" in text, (case, step)
            assert step.guard is not None, case
    assert fetching >= 3


def test_every_repository_is_bound_to_a_key_that_a_step_before_wrote(steps: dict[Step, str]) -> None:
    repositories = 0
    for step, case in steps.items():
        if not isinstance(step, (WriteFile, WriteBlock)):
            continue
        if re.search(r"sources\.list\.d/.*\.(sources|list)$", step.path):
            repositories += 1
            assert re.search(r"^Signed-By: /|signed-by=/", step.content, re.MULTILINE), case
        if re.search(r"yum\.repos\.d/|dnf", step.path) and "baseurl" in step.content:
            repositories += 1
            assert re.search(r"^(repo_)?gpgcheck=1$", step.content, re.MULTILINE), case
            assert re.search(r"^gpgkey=file:///", step.content, re.MULTILINE), case
    assert repositories >= 3
