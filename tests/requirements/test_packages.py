"""Where packages come from: directories, mirrors, and repositories whose keys are known beforehand."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from case_facts import facts_of

from clusterctl import resources
from clusterctl.errors import InventoryError
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.vendors import tables
from clusterctl.inventory.load import load
from clusterctl.inventory.model import Node
from clusterctl.requirements import packages
from clusterctl.requirements.containers import docker_install
from clusterctl.requirements.packages import Repository, SigningKey
from clusterctl.requirements.steps import Command, InstallPackages, WriteFile


def _node(**settings: object) -> Node:
    return Node.model_validate({"name": "n1", "address": "n1", "requirements": {"packages": settings}})


def test_packages_come_from_the_inventorys_folder_by_the_nodes_manager():
    carried = packages.install(facts_of({"manager": "dnf"}), _node(folder="/srv/rpms"), "Install", "a", "b")
    assert carried == InstallPackages("Install", "dnf", ("a", "b"), "/srv/rpms")
    fetched = packages.install(facts_of({"manager": "apt"}), _node(), "Install", "a")
    assert fetched == InstallPackages("Install", "apt", ("a",), None)


@pytest.mark.parametrize(
    ("manager", "kernel", "package"),
    [
        ("apt", "6.8.0-1021-nvidia-64k", "linux-headers-6.8.0-1021-nvidia-64k"),
        ("dnf", "5.14.0-427.13.1.el9_4.x86_64", "kernel-devel-5.14.0-427.13.1.el9_4.x86_64"),
        ("dnf", "5.14.0-503.11.1.el9_5.aarch64+64k", "kernel-64k-devel-5.14.0-503.11.1.el9_5.aarch64"),
        ("dnf", "5.15.0-205.149.5.1.el9uek.x86_64", "kernel-uek-devel-5.15.0-205.149.5.1.el9uek.x86_64"),
        ("zypper", "6.4.0-150600.23-default", None),
    ],
)
def test_the_build_files_of_a_kernel_are_a_package_of_its_own_name(manager, kernel, package):
    assert packages.kernel_headers(facts_of({"manager": manager, "kernel": kernel})) == package


@pytest.mark.parametrize("manager", ["zypper", None])
def test_a_manager_that_is_not_known_installs_nothing(manager):
    facts = facts_of({"manager": manager})
    assert packages.install(facts, _node(), "Install", "a") is None
    assert packages.repository(facts, _node(), docker_install.repository_for(facts_of({}))) == ()


def test_a_mirror_stands_in_for_the_vendors_host_and_the_key_stays_the_vendors():
    facts = facts_of({})
    plain = packages.repository(facts, _node(), docker_install.repository_for(facts))
    mirrored = packages.repository(
        facts, _node(mirror="http://mirror.lan/m/"), docker_install.repository_for(facts)
    )
    assert "https://download.docker.com/linux/debian\n" in plain[-1].content
    assert "http://mirror.lan/m/download.docker.com/linux/debian\n" in mirrored[-1].content
    assert mirrored[0].guard == plain[0].guard


def test_carried_packages_need_no_repository():
    facts = facts_of({})
    assert packages.repository(facts, _node(folder="/srv/debs"), docker_install.repository_for(facts)) == ()


@pytest.mark.parametrize(
    ("path", "added"),
    [
        ("/etc/apt/sources.list.d/docker.list", False),
        ("/etc/apt/sources.list.d/clusterctl-docker.sources", True),
    ],
)
def test_a_repository_that_the_site_configured_is_left_alone(path, added):
    facts = facts_of({})
    line = ConfigLine(path, "deb https://download.docker.com/linux/debian bookworm stable")
    facts = replace(facts, software=replace(facts.software, repositories=(line,)))
    assert bool(packages.repository(facts, _node(), docker_install.repository_for(facts))) is added


def test_dnf_knows_the_shipped_key_before_it_is_asked():
    facts = facts_of({"os": "rocky", "manager": "dnf"})
    key, trust, source = packages.repository(facts, _node(), docker_install.repository_for(facts))
    assert isinstance(key, WriteFile) and isinstance(trust, Command) and isinstance(source, WriteFile)
    assert hashlib.sha256(key.content.encode()).hexdigest() == docker_install.signing_key("dnf").sha256
    assert trust.argv == ("rpm", "--import", key.path)
    assert "gpg-pubkey-621e9f35" in " ".join(trust.undo or ())
    assert f"gpgkey=file://{key.path}\n" in source.content
    assert "gpgcheck=1\nrepo_gpgcheck=0\n" in source.content


def _fingerprint(armored: str) -> str:
    """The fingerprint of an armored key's first packet, a version 4 public key (RFC 4880, 12.2)."""
    body = armored.partition("\n\n")[2].partition("\n=")[0]
    packet = base64.b64decode("".join(body.split()))
    assert packet[0] == 0x99, "an old-format public key packet with a length of two bytes"
    length = int.from_bytes(packet[1:3], "big")
    return (
        hashlib.sha1(b"\x99" + packet[1:3] + packet[3 : 3 + length], usedforsecurity=False)
        .hexdigest()
        .upper()
    )


@pytest.mark.parametrize("path", sorted(resources.folder("templates").glob("keys/*")), ids=lambda p: p.name)
def test_every_shipped_key_is_the_one_whose_fingerprint_is_published(path):
    (key,) = (key for key in tables.repositories().keys if key.shipped == path.name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == key.sha256
    assert _fingerprint(path.read_text()) == key.fingerprint


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, directory=str(folder), **options)  # type: ignore[arg-type]

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("found", ["apt", "dnf"])
@pytest.mark.parametrize("genuine", [True, False])
def test_a_fetched_key_is_kept_only_when_its_sum_is_the_known_one(
    tmp_path, monkeypatch, tier_unavailable, found, genuine
):
    tool = {"apt": "/usr/lib/apt/apt-helper", "dnf": "curl"}[found]
    if shutil.which(tool) is None:
        tier_unavailable(f"{tool} is not installed")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    tmp_path.chmod(0o755)
    served = tmp_path / "served"
    served.mkdir()
    (served / "key.asc").write_text("the key\n")
    expected = hashlib.sha256(b"the key\n" if genuine else b"another key\n").hexdigest()
    target = tmp_path / "kept.asc"
    with _served(served) as url:
        key = SigningKey("0" * 40, expected, url=f"{url}/key.asc")
        step = packages._key(_node(), Repository("x", "X", url, key), str(target), found)
        assert isinstance(step, Command) and step.guard is not None and step.undo is not None
        assert subprocess.run(step.guard, check=False, capture_output=True, timeout=60).returncode != 0
        argv = step.argv
        if found == "apt":
            argv = (*argv[:2], argv[2].replace("apt-helper ", "apt-helper -o Acquire::http::Proxy=false "))
        done = subprocess.run(argv, check=False, capture_output=True, timeout=60)
    assert (done.returncode == 0) is genuine, done
    assert target.exists() is genuine
    assert (
        subprocess.run(step.guard, check=False, capture_output=True, timeout=60).returncode == 0
    ) is genuine
    subprocess.run(step.undo, check=True, timeout=60)
    assert not target.exists()


def test_relative_paths_start_at_the_inventory_and_must_be_there(tmp_path):
    (tmp_path / "debs").mkdir()
    (tmp_path / "cluster.conf").write_text("n1\n")
    text = (
        "version: 1\ndefaults: {requirements: {packages: {folder: debs}, cluster_file: {source: cluster.conf}}}\n"
        "nodes: [{name: n1}]\n"
    )
    (tmp_path / "i.yaml").write_text(text)
    (node,) = load(tmp_path / "i.yaml").nodes
    assert node.requirements.packages.folder == str(tmp_path / "debs")
    assert node.requirements.cluster_file.source == str(tmp_path / "cluster.conf")
    assert node.requirements.cluster_file.content == "n1\n"
    (tmp_path / "i.yaml").write_text(text.replace("folder: debs", "folder: rpms"))
    with pytest.raises(InventoryError, match=r"packages\.folder: directory not found: .*/rpms"):
        load(tmp_path / "i.yaml")


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        (b"\xff\xfe", "", "UTF-8"),
        (b"n1\0", "", "UTF-8"),
        (b"x" * ((1 << 20) + 1), "", "at most 1 MiB"),
        (b"x", ", content: y", "either"),
    ],
)
def test_a_cluster_file_that_cannot_be_written_as_text_is_refused(tmp_path, content, more, words):
    (tmp_path / "cluster.conf").write_bytes(content)
    settings = f"{{source: cluster.conf{more}}}"
    text = f"version: 1\ndefaults: {{requirements: {{cluster_file: {settings}}}}}\nnodes: [{{name: n1}}]\n"
    (tmp_path / "i.yaml").write_text(text)
    with pytest.raises(InventoryError, match=rf"cluster_file\.source: .*{words}"):
        load(tmp_path / "i.yaml")


def test_rpm_trusts_the_shipped_key_and_forgets_it_again(tmp_path, tier_unavailable):
    """The real rpm, over a database of its own (Debian's rpm keeps the default one in the home directory)."""
    if shutil.which("rpm") is None:
        tier_unavailable("rpm is not installed")
    base = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    shown = subprocess.run(
        ("rpm", "--eval", "%_dbpath"), env=base, capture_output=True, text=True, timeout=30, check=True
    )
    if not shown.stdout.startswith(str(tmp_path)):
        (tmp_path / ".rpmmacros").write_text(f"%_dbpath {tmp_path}/db\n")
    wanted = Repository(
        "docker", "docker's repository", "https://download.docker.com", docker_install.signing_key("dnf")
    )
    step = packages._trust(wanted, str(resources.folder("templates") / "keys" / "docker-rpm.asc"))

    def ends(argv: tuple[str, ...]) -> int:
        return subprocess.run(argv, env=base, capture_output=True, timeout=60, check=False).returncode

    assert step.guard is not None and step.undo is not None
    assert ends(step.guard) != 0
    assert ends(step.argv) == 0 and ends(step.guard) == 0
    assert ends(step.undo) == 0 and ends(step.guard) != 0
    assert ends(step.undo) == 0, "undo may be run again after a crash"
