"""Every file under templates/, inventories/ and apply/runner/ is used by the code that ships it: none is left over.

Which files were opened is what Python's own audit events say, not which names stand in a test. Those that only a
container or a guest can run are opened by the tests below too, are read by their own interpreters here, and do their
work in the lab's tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import bench_views
import locate_documents
import pytest
import yaml
from result_documents import H200_NP2, collective, slow_rank_training
from sample_acceptance import sample_acceptance
from sample_fleet import sample_fleet

from clusterctl import resources
from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan
from clusterctl.cli.check import output
from clusterctl.cli.render.app import app
from clusterctl.containers import files as containers_files
from clusterctl.containers import keys as containers_keys
from clusterctl.errors import InventoryError
from clusterctl.inventory import load, schema
from clusterctl.lab import node_engine, recipe
from clusterctl.report.html import of_view as html
from clusterctl.requirements import rendering
from clusterctl.requirements.catalog import ALL
from clusterctl.views import accept

TESTS = Path(__file__).parents[1]
FOLDERS = (*(resources.folder(name) for name in ("templates", "inventories")), script.RUNNER)
FILES = {
    path
    for folder in FOLDERS
    for path in folder.rglob("*")
    # Python keeps what it has compiled of the programs among them, once one is imported; the runner has a page.
    if path.is_file() and path.suffix != ".pyc" and path.name != "README.md"
}
_opened: set[Path] = set()
_watching: list[bool] = []


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event == "open" and isinstance(arguments[0], (str, Path)):
        _opened.add(Path(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def _watch() -> Iterator[None]:
    # A hook cannot be removed again; it does nothing while no test watches.
    sys.addaudithook(_heard)
    _watching.append(True)
    rendering.template.cache_clear()
    yield
    _watching.clear()


def _reports() -> None:
    one, other = collective(), collective(H200_NP2, run="20261121T091500Z-bench-aaaa")
    for page in (
        bench_views.page(one),
        bench_views.page(slow_rank_training()),
        html.render(output.view(sample_fleet(8), (), for_page=True)),
        bench_views.compared_page(one, other),
        html.render(accept.view(sample_acceptance())),
        locate_documents.page(locate_documents.document(4)),
    ):
        assert page.startswith("<!DOCTYPE html>")


def _golden() -> None:
    for path in sorted((TESTS / "golden/render").glob("*.yaml")):
        case = yaml.safe_load(path.read_text())
        Path("inventory.yaml").write_text(case["inventory"])
        app(args=case["arguments"], standalone_mode=False)


def _requirements() -> None:
    """The recorded cases of tests/requirements, until every file that requirements write has been written."""
    sys.path.insert(0, str(TESTS / "requirements"))
    try:
        import test_cases
    finally:
        sys.path.pop(0)
    wanted = {
        path
        for path in FILES
        if path.parent.name in ("apply", "systemd", "sysctl", "timesync", "apt", "dnf", "keys")
    }
    for path in test_cases.CASES:
        if wanted <= _opened:
            break
        assert path.parent.name in ALL
        test_cases.judge_case(path)


def _scripts() -> None:
    header = script.Header("run", "operator", "nonce")
    assert script.apply_script(header, NodePlan("n", ())) and script.undo_script(header)


def _containers() -> None:
    key = containers_keys.make()
    peer = containers_files.Peer("node1", "10.0.0.1", 2222, key)
    assert b"Port 2222" in containers_files.archive(peer, [peer], key, "")


def _lab() -> None:
    """What a guest or a container starts with; the lab's recipe is of them and its key changes with them."""
    assert recipe.current().key
    assert all(file.content for file in node_engine.files())


def _inventories() -> None:
    folder = resources.folder("inventories")
    for path in sorted(set(folder.glob("*.yaml")) - {folder / "lab.yaml"}):
        assert load.load(path).nodes
    # Its key is made by `lab up`, beside it; tests/unit/inventory loads it with one.
    with pytest.raises(InventoryError, match="id_ed25519"):
        load.load(folder / "lab.yaml")
    assert resources.text("inventories", "schema.json") == schema.text()


@pytest.mark.parametrize(
    "use",
    [_reports, _golden, _scripts, _containers, _lab, _inventories, _requirements],
    ids=lambda u: u.__name__,
)
def test_what_ships_is_used(use: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERCTL_INVENTORY", str(tmp_path / "inventory.yaml"))
    before = len(_opened & FILES)
    use()
    assert len(_opened & FILES) > before


IN_A_CONTAINER = ("docker/probe-base.sh", "docker/prove.sh", "docker/start-sshd", "docker/record-packages")
IN_A_GUEST = ("lab/init.sh", "lab/engine.sh", "ssh/container-enter.sh")


@pytest.mark.parametrize("name", [*IN_A_CONTAINER, *IN_A_GUEST])
def test_what_runs_elsewhere_is_sound_shell(name: str) -> None:
    text = resources.text("templates", *name.split("/"))
    for shell in (("dash", "-n"), ("busybox", "sh", "-n")):
        done = subprocess.run(shell, input=text, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_the_loader_is_sound_python() -> None:
    compile(resources.text("templates", "docker", "prove.py"), "prove.py", "exec")


def test_this_machine_answers_the_questions_that_a_base_image_is_asked() -> None:
    text = resources.text("templates", "docker", "probe-base.sh")
    done = subprocess.run(("sh", "-s"), input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answers = {line.split(" ", 1)[0] for line in done.stdout.splitlines()}
    assert {"os", "ids", "glibc"} <= answers, done.stdout


def test_no_file_is_left_over() -> None:
    """The last one: with the others before it, every file has been opened."""
    assert sorted(str(path.relative_to(path.parents[1])) for path in FILES - _opened) == []
