"""The lab's parts that need no root and no guest: mirrors, archives, processes, records, refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest
import yaml

from clusterctl import lab as labs
from clusterctl.documents.lab import GuestSize, ProcessMark
from clusterctl.errors import LabError, UsageError
from clusterctl.inventory.model import InventoryFile
from clusterctl.lab import (
    BindMount,
    Lab,
    LabNode,
    LabOptions,
    containers,
    host,
    node_files,
    power,
    processes,
    python_mounts,
    qemu,
    rootfs,
    rootfs_steps,
)  # fmt: skip
from clusterctl.lab.apt_sources import AptSource, choose, parse_deb822, parse_list
from clusterctl.lab.initramfs import CpioEntry, cpio, load_order
from clusterctl.lab.model import load, save
from clusterctl.lab.node_files import KeyPair, NodeFile
from clusterctl.lab.recipe import LabRecipe
from clusterctl.lab.rootfs import Image

DEB822 = """\
# comment
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""

NODE = LabNode("node1", "127.83.0.11", 4001, "root", "10.83.0.11", "fabric0", ProcessMark(1, 2))
PEER = LabNode("node2", "127.83.0.12", 4002, "root", "10.83.0.12", "fabric0")


def make_lab(folder: Path) -> Lab:
    return Lab("c0ffee00", folder, "qemu", "0123456789abcdef", GuestSize(1280, 1, "tcg"), (NODE, PEER))


def test_mirror_comes_from_deb822_sources():
    found = choose(parse_deb822(DEB822))
    assert [source.line() for source in found] == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-updates main",
        "deb http://mirror.example/security bookworm-security main",
    ]


def test_mirror_comes_from_one_line_sources():
    text = (
        "# deb http://off.example/debian bookworm main\n"
        "deb-src http://off.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/etc/k.gpg] https://mirror.example/debian/ bookworm main contrib # ours\n"
        "deb [ trusted=yes ] mirror+file:/etc/mirrors bookworm-updates main\n"
        "deb http://vendor.example stable main\n"
    )
    assert choose(parse_list(text)) == (AptSource("https://mirror.example/debian", "bookworm", ("main",)),)


def test_another_release_or_distribution_leaves_the_mirror_to_debootstrap():
    assert choose(parse_list("deb http://archive.example/ubuntu noble main universe\n")) == ()
    assert choose(parse_list("deb http://mirror.example/security bookworm-security main\n")) == ()


def test_cpio_archive_is_read_by_another_implementation(tmp_path, tier_unavailable):
    names = {"a": b"", "b/c": b"xyz", "b/long-name-of-a-module.ko": bytes(range(256)) * 5}
    archive = cpio([CpioEntry("b", None, 0o755), *(CpioEntry(n, c, 0o640) for n, c in names.items())])
    if host.missing_tools({"cpio": "cpio"}):
        tier_unavailable("cpio is not installed on this machine")
    subprocess.run(("cpio", "-id", "--quiet"), check=True, cwd=tmp_path, input=archive, timeout=60)
    assert {name: (tmp_path / name).read_bytes() for name in names} == names
    assert (tmp_path / "a").stat().st_mode == 0o100640


def test_modules_load_after_what_they_need():
    text = (
        "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko\n"
        "kernel/fs/jbd2/jbd2.ko:\nkernel/lib/crc16.ko:\nkernel/fs/mbcache.ko:\n"
        "kernel/crypto/crc32c-generic.ko.xz:\n"
    )
    order = load_order(text, ("crc32c_generic", "ext4"))
    assert order[0] == "kernel/crypto/crc32c-generic.ko.xz"
    assert order[-1] == "kernel/fs/ext4/ext4.ko"
    assert len(order) == 5
    with pytest.raises(LabError, match="no module virtio_blk"):
        load_order(text, ("virtio_blk",))


def test_only_the_very_process_is_ended():
    with subprocess.Popen(("sleep", "60")) as process:
        own = processes.mark(process.pid)
        stranger = replace(own, start_ticks=own.start_ticks + 1)
        assert processes.is_alive(own)
        assert not processes.is_alive(stranger)
        processes.end(stranger, grace_s=1)
        assert process.poll() is None
        processes.end(own, grace_s=5)
        assert not processes.is_alive(own)
        assert process.wait(10) == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed():
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        processes.end(processes.mark(process.pid), grace_s=0.2)
        assert process.wait(10) == -signal.SIGKILL


def test_record_survives_a_round_trip_and_refuses_strangers(tmp_path):
    lab = make_lab(tmp_path)
    lab = replace(lab, mounts=(BindMount("/data", "/data", read_only=True),))
    save(lab)
    assert load(tmp_path) == lab
    assert load(tmp_path / "none") is None
    strange_node = lab.state_path.read_text().replace('"nodes": [', '"nodes": ["node1",')
    for text in ('{"schema": "other/1"}', "{}", "no json", "[]", strange_node):
        lab.state_path.write_text(text)
        with pytest.raises(LabError):
            load(tmp_path)


def test_inventory_of_guests_fits_the_model(tmp_path):
    lab = make_lab(tmp_path)
    text = node_files.inventory_text("qemu", lab.nodes, lab.identity_file, lab.known_hosts_path, None)
    file = InventoryFile.model_validate(yaml.safe_load(text))
    assert [(node.name, node.address, node.port) for node in file.nodes] == [
        ("node1", "127.83.0.11", 4001),
        ("node2", "127.83.0.12", 4002),
    ]
    assert file.defaults.requirements.acs.gpu_devices == ("1234:11e8",)
    assert file.defaults.requirements.acs.nic_devices == ("8086:10d3",)


def test_shipped_example_is_what_the_lab_writes():
    example = Path(__file__).parents[2] / "inventories" / "lab.yaml"
    text = node_files.inventory_text(
        "qemu", (NODE, PEER), Path(".clusterctl-lab/id_ed25519"), Path(".clusterctl-lab/known_hosts"), None
    )
    assert yaml.safe_load(example.read_text()) == yaml.safe_load(text)


def test_known_hosts_name_the_port_only_where_it_is_not_22():
    keys = (KeyPair("", "ssh-ed25519 AAAA node1\n"), KeyPair("", "ssh-ed25519 BBBB node2\n"))
    nodes = (NODE, replace(PEER, port=22))
    assert node_files.known_hosts_from_outside(nodes, keys) == (
        "[127.83.0.11]:4001 ssh-ed25519 AAAA\n127.83.0.12 ssh-ed25519 BBBB\n"
    )
    assert node_files.known_hosts_between_nodes(nodes, keys) == (
        "node1,10.83.0.11 ssh-ed25519 AAAA\nnode2,10.83.0.12 ssh-ed25519 BBBB\n"
    )


def test_openssh_understands_the_configuration(tmp_path, tier_unavailable):
    if host.missing_tools({"ssh": "openssh-client"}):
        tier_unavailable("no OpenSSH client on this machine")
    path = tmp_path / "ssh_config"
    path.write_text(node_files.ssh_config_text((NODE, PEER), tmp_path / "a key", tmp_path / "known"))
    done = subprocess.run(
        ("ssh", "-G", "-F", str(path), "node2"), capture_output=True, check=True, text=True, timeout=60
    )
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert (found["hostname"], found["port"], found["user"]) == ("127.83.0.12", "4002", "root")
    assert found["identityfile"] == str(tmp_path / "a key")
    assert found["stricthostkeychecking"] in ("true", "yes")


def test_node_files_keep_modes_and_owners(tmp_path):
    import io
    import tarfile

    data = node_files.to_tar(
        [NodeFile("home/lab/.ssh", None, 0o700, 1000), NodeFile("etc/x", "text\n", 0o600)]
    )
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        folder, file = archive.getmembers()
        assert (folder.isdir(), folder.mode, folder.uid, folder.gid) == (True, 0o700, 1000, 1000)
        assert (file.mode, file.uid, archive.extractfile(file).read()) == (0o600, 0, b"text\n")


def test_guests_of_one_lab_share_a_fabric_and_nothing_else(tmp_path):
    size = GuestSize(1024, 1, "tcg")
    argvs = [
        qemu.guest_argv("c0ffee00", node, Image("k"), tmp_path / node.name, size) for node in (NODE, PEER)
    ]
    other = qemu.guest_argv("deadbeef", NODE, Image("k"), tmp_path / "x", size)
    fabrics = [next(word for word in argv if word.startswith("socket,")) for argv in (*argvs, other)]
    assert fabrics[0] == fabrics[1] != fabrics[2]
    macs = [part for argv in argvs for word in argv for part in word.split(",") if part.startswith("mac=")]
    assert len(set(macs)) == 4
    assert all(int(mac[4:6], 16) & 1 == 0 for mac in macs)


def test_guests_mount_directories_whose_names_need_quoting(tmp_path):
    mounts = (BindMount("/data/a,b", "/data/a b", read_only=True), BindMount("/work", "/work"))
    argv = qemu.guest_argv("c0ffee00", NODE, Image("k"), tmp_path, GuestSize(1024, 2, "tcg"), mounts)
    assert [word for word in argv if word.startswith("local,")] == [
        "local,id=mount0,path=/data/a,,b,security_model=none,readonly=on",
        "local,id=mount1,path=/work,security_model=none",
    ]
    places = [word.split(",addr=")[1].split(",")[0] for word in argv if ",addr=" in word]
    assert len(places) == len(set(places))
    (fstab,) = qemu.mount_files(mounts)
    assert fstab.path == "etc/fstab"
    assert [line.split()[:3] for line in fstab.content.splitlines()] == [
        ["mount0", r"/data/a\040b", "9p"],
        ["mount1", "/work", "9p"],
    ]
    assert [line.split()[3].split(",")[0] for line in fstab.content.splitlines()] == ["ro", "rw"]
    assert qemu.mount_files(()) == ()


@pytest.mark.parametrize(
    "text", ["", "/tmp", "/tmp:relative", "/tmp:/", "/tmp:/a:rx", "/no/such/folder:/a", "a:b:c:d"]
)
def test_wrong_mounts_are_refused(text):
    with pytest.raises(UsageError):
        BindMount.parse(text)


def test_mounts_are_parsed(tmp_path):
    assert BindMount.parse(f"{tmp_path}:/data:ro") == BindMount(str(tmp_path), "/data", read_only=True)
    assert BindMount.parse(f"{tmp_path}:/data") == BindMount(str(tmp_path), "/data", read_only=False)


def test_mounts_of_this_python_cover_the_interpreter_and_its_base():
    mounts = python_mounts.for_this_python()
    assert all(mount.read_only and mount.source == mount.target for mount in mounts)
    folders = [Path(mount.target) for mount in mounts]
    assert not any(folder in (Path("/"), Path("/usr")) for folder in folders)
    for needed in (sys.executable, os.path.realpath(sys.executable), os.__file__, pytest.__file__):
        assert any(Path(needed).is_relative_to(folder) for folder in folders), needed


def test_up_refuses_before_it_touches_anything(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LabError, match="not empty"):
        labs.up(LabOptions(directory=tmp_path))
    for below in ("file", "file/lab"):
        with pytest.raises(LabError, match="is not a writable directory"):
            labs.up(LabOptions(directory=tmp_path / below))
    with pytest.raises(UsageError, match="1 to 16"):
        labs.up(LabOptions(nodes=0, directory=tmp_path / "lab"))
    with pytest.raises(UsageError, match="--with-python needs --driver docker"):
        labs.up(LabOptions(driver="qemu", with_python=True, directory=tmp_path / "lab"))
    file = BindMount(str(tmp_path / "file"), "/file")
    with pytest.raises(UsageError, match=r"--mount .*/file must be a directory"):
        labs.up(LabOptions(driver="qemu", mounts=(file,), directory=tmp_path / "lab"))
    folder = BindMount(str(tmp_path), "/folder")
    with pytest.raises(UsageError, match="12 mounts at most, not 13"):
        labs.up(LabOptions(driver="qemu", mounts=(folder,) * 13, directory=tmp_path / "lab"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert labs.down(tmp_path) is False
    assert (tmp_path / "file").read_text() == "mine"


def test_missing_tools_are_named_with_the_line_that_installs_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "_SBIN", str(tmp_path))
    with pytest.raises(LabError) as caught:
        labs.up(LabOptions(driver="qemu", directory=tmp_path / "lab"))
    assert "qemu-system-x86_64" in caught.value.message
    assert caught.value.hint.endswith("openssh-client qemu-system-x86 qemu-utils")
    assert not (tmp_path / "lab").exists()


def test_a_missing_keyring_is_named_with_its_package(tmp_path, monkeypatch):
    present = {str(tmp_path): "a folder is no keyring", sys.executable: "python3"}
    assert host.missing_tools(present) == {str(tmp_path): "a folder is no keyring"}
    monkeypatch.setattr(
        host, "missing_tools", lambda tools: {k: v for k, v in tools.items() if "keyring" in k}
    )
    with pytest.raises(LabError, match=r"debian-archive-keyring\.gpg") as caught:
        host.require_build_host()
    assert caught.value.hint.endswith(" debian-archive-keyring")


def test_debootstrap_takes_nothing_unverified(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(host, "run", lambda argv, timeout_s: commands.append(tuple(argv)))
    with pytest.raises(FileNotFoundError):  # no system was made, so that its settings cannot be written
        rootfs_steps.bootstrap(LabRecipe("bookworm", (), "key"), tmp_path / "root")
    words = commands[0]
    start = words.index("debootstrap")
    assert words[start + 1 : start + 3] == ("--force-check-gpg", f"--keyring={host.DEBIAN_KEYRING}")
    # Killed in the middle it leaves no mount of the host's behind, by which the half-made system could not be removed.
    assert words[0] == "unshare" and {"--mount", "--pid", "--kill-child"} <= set(words[:start])


def _cached_image(cache, key, age_s):
    folder = cache / "clusterctl" / "lab" / key
    folder.mkdir(parents=True)
    (folder / "rootfs.ext4").write_text(key)
    record = folder / "image.json"
    record.write_text("{}")
    os.utime(record, (time.time() - age_s,) * 2)
    return folder


def test_the_images_of_older_recipes_are_removed_but_for_the_last_and_those_in_use(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    now = LabRecipe("bookworm", (), "now")
    monkeypatch.setattr(rootfs, "current", lambda: now)
    current, last, used, old = (
        _cached_image(tmp_path, key, age)
        for key, age in (("now", 9000), ("last", 10), ("used", 20), ("old", 30))
    )
    (tmp_path / "clusterctl" / "lab" / "not-ours").mkdir()
    with (used / "rootfs.ext4").open():
        assert rootfs.ensure().key == "now"
        assert [folder.is_dir() for folder in (current, last, used, old)] == [True, True, True, False]
    rootfs.ensure()
    assert [folder.is_dir() for folder in (current, last, used)] == [True, True, False]
    # The recipe of before again, for instance on another branch: now the other one is the last that was used.
    monkeypatch.setattr(rootfs, "current", lambda: LabRecipe("bookworm", (), "last"))
    rootfs.ensure()
    _cached_image(tmp_path, "older", 9999)
    rootfs.ensure()
    left = {path.name for path in (tmp_path / "clusterctl" / "lab").iterdir()}
    assert left == {"now", "last", "not-ours", "lock"}


def test_bare_nodes_know_no_other_and_are_told_where_their_packages_are(tmp_path):
    keys = [KeyPair(f"private {n}", f"ssh-ed25519 AAAA{n} {n}") for n in ("one", "two")]
    login = KeyPair("the login's private half", "ssh-ed25519 AAAAlogin lab")
    files = node_files.ssh_files((NODE, PEER), keys, 0, login, bare=True)
    assert not any("login's private half" in (file.content or "") for file in files)
    assert not any("AAAAtwo" in (file.content or "") for file in files)
    assert sum("AAAAlogin" in (file.content or "") for file in files) == 2
    text = node_files.inventory_text(
        "qemu", (NODE, PEER), tmp_path / "id", tmp_path / "known", None, tmp_path / "packages"
    )
    document = yaml.safe_load(text)
    InventoryFile.model_validate(document)
    assert document["defaults"]["requirements"]["packages"] == {"folder": str(tmp_path / "packages")}
    with pytest.raises(UsageError, match="containers have no"):
        labs.up(LabOptions(driver="docker", bare=True, directory=tmp_path / "lab"))
    assert not (tmp_path / "lab").exists()


def test_a_guests_memory_is_that_of_two_nodes(tmp_path):
    for memory_mib, halves in ((1280, ["640", "640"]), (1281, ["641", "640"])):
        size = GuestSize(memory_mib, 2, "tcg")
        words = qemu.guest_argv("c0ffee00", NODE, Image("key"), tmp_path, size)
        sizes = [
            word.partition("size=")[2].rstrip("M") for word in words if word.startswith("memory-backend-ram")
        ]
        assert sizes == halves
        assert [word for word in words if word.startswith("node,")] == [
            "node,nodeid=0,memdev=memory0,cpus=0-1", "node,nodeid=1,memdev=memory1",
        ]  # fmt: skip


class Images:
    """The images of an engine: one with a name, one that lost it, one that a container is made of."""

    def __init__(self) -> None:
        tags = {"sha256:1": ["clusterctl-lab:1"], "sha256:2": [], "sha256:3": ["clusterctl-lab:3"]}
        self.left = [SimpleNamespace(id=name, tags=of) for name, of in tags.items()]

    def list(self, filters: dict[str, str]) -> list[SimpleNamespace]:
        return list(self.left)

    def remove(self, name: str, force: bool = False) -> None:
        if name in ("sha256:3", "clusterctl-lab:3"):
            raise docker.errors.APIError("409", explanation="it is being used by running container 7")
        self.left = [image for image in self.left if name not in (image.id, *image.tags)]


def test_images_are_purged_whatever_they_are_called(monkeypatch):
    images = Images()
    monkeypatch.setattr(containers, "engine", lambda: nullcontext(SimpleNamespace(images=images)))
    containers.purge_images()
    assert [image.id for image in images.left] == ["sha256:3"]


def test_images_without_a_name_go_with_those_of_older_recipes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images = Images()
    containers._prune_images(SimpleNamespace(images=images), keep="clusterctl-lab:1")
    assert [image.id for image in images.left] == ["sha256:1", "sha256:3"]


def test_no_engine_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(LabError, match="no docker engine answers") as caught:
        labs.up(LabOptions(driver="docker", directory=tmp_path / "lab"))
    assert "apt-get install" in caught.value.hint
    assert not (tmp_path / "lab").exists()


def test_building_without_root_says_so(monkeypatch, tier_unavailable):
    if host.missing_tools(host.BUILD_TOOLS):
        tier_unavailable("the tools that build a root filesystem are not installed on this machine")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root") as caught:
        host.require_build_host()
    assert "sudo clusterctl lab up" in caught.value.hint


def test_a_failing_command_shows_the_end_of_its_output():
    with pytest.raises(LabError, match=r"^reason\nexit 3 from: sh -c .*\nbefore$"):
        host.run(("sh", "-c", "echo before; echo reason >&2; exit 3"), 10)
    with pytest.raises(LabError, match=r"^exit 1 from: false$"):
        host.run(("false",), 10)
    with pytest.raises(LabError, match=r"no end after 0 s"):
        host.run(("sleep", "5"), 0.2)
    with pytest.raises(LabError, match="is not on this machine"):
        host.run(("/no/such/tool",), 1)


def test_what_no_boot_explains_is_told_once_while_ssh_is_awaited(monkeypatch, caplog):
    unreachable = "ssh: connect to host 127.0.0.1 port 22: Network is unreachable"
    answers = iter(["Connection refused", unreachable, unreachable, None])
    monkeypatch.setattr(power, "_try_ssh", lambda *_: next(answers))
    monkeypatch.setattr(power, "is_running", lambda *_: True)
    monkeypatch.setattr(power, "_TELL_AFTER_S", 0.0)
    lab = SimpleNamespace(node=lambda name: name)
    power.wait_ssh(lab, "node1", timeout_s=60)
    assert [record.getMessage() for record in caplog.records] == [
        f"node1: {unreachable}; trying again for at most 60 s"
    ]
