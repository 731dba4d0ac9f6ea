"""The steps that make a Debian root filesystem in a directory: bootstrap, packages, kernel, settings."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from clusterctl import resources
from clusterctl.errors import LabError
from clusterctl.lab import host
from clusterctl.lab.recipe import (
    BARE_PACKAGES,
    CARRIED_PACKAGES,
    KERNEL_PACKAGE,
    MASKED_UNITS,
    PRUNED_MODULES,
    USER,
    USER_ID,
    LabRecipe,
)

_DOWNLOAD_TIMEOUT_S = 1200.0
_INSTALL_TIMEOUT_S = 900.0
_CHROOT_ENVIRONMENT = (
    "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C",
    "DEBIAN_FRONTEND=noninteractive",
)  # fmt: skip
# The namespaces end all mounts and processes with the command, even if it is killed.
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")


def bootstrap(recipe: LabRecipe, root: Path) -> None:
    """Make the smallest Debian system in ``root``, and point its apt at the mirror that this machine uses."""
    root.mkdir()
    # Without its keyring debootstrap would only warn, and take what the mirror sends unverified.
    verified = (*_NAMESPACES, "debootstrap", "--force-check-gpg", f"--keyring={host.DEBIAN_KEYRING}")
    argv = [*verified, "--variant=minbase", "--include=ca-certificates", recipe.suite, str(root)]
    host.run([*argv, recipe.mirror] if recipe.mirror else argv, _DOWNLOAD_TIMEOUT_S)
    if recipe.sources:
        lines = "".join(f"{source.line()}\n" for source in recipe.sources)
        (root / "etc/apt/sources.list").write_text(lines, encoding="utf-8")
    settings = root / "etc/dpkg/dpkg.cfg.d/clusterctl-lab"
    settings.write_text(resources.text("templates", "lab", "dpkg.cfg"), encoding="utf-8")


def in_root(root: Path, *argv: str) -> str:
    """Run a command inside the new system; its mounts and processes end with it."""
    script = 'mount -t proc proc "$0/proc" && root=$0 && exec chroot "$root" "$@"'
    return host.run(
        (*_NAMESPACES, "sh", "-c", script, str(root), *_CHROOT_ENVIRONMENT, *argv), _INSTALL_TIMEOUT_S
    )


def _apt_options(root: Path) -> tuple[str, ...]:
    """Return options that make this machine's apt work on ``root``, with its proxies and certificates."""
    options = {
        "Dir": root,
        "Dir::State::status": root / "var/lib/dpkg/status",
        "Dir::Etc::sourceparts": root / "etc/apt/sources.list.d",
        "Dir::Etc::trustedparts": root / "etc/apt/trusted.gpg.d",
        "APT::Architecture": "amd64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    return tuple(word for name, value in options.items() for word in ("-o", f"{name}={value}"))


def install_base(root: Path) -> str:
    """Install what every node has and the kernel's headers; return the name of the kernel's package."""
    options = _apt_options(root)
    host.run(("apt-get", *options, "update"), _DOWNLOAD_TIMEOUT_S)
    kernel = _kernel_package(host.run(("apt-cache", *options, "depends", KERNEL_PACKAGE), 60))
    install(root, (*BARE_PACKAGES, kernel.replace("linux-image-", "linux-headers-")))
    return kernel


def install(root: Path, packages: tuple[str, ...]) -> None:
    """Download packages with this machine's apt, and install them inside the new system."""
    wanted = ("install", *packages)
    host.run(("apt-get", *_apt_options(root), "--yes", "--download-only", *wanted), _DOWNLOAD_TIMEOUT_S)

    # No service may start while packages are configured, because no init runs in the tree.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    in_root(
        root, "apt-get", "--yes", "--no-download", "-o", "APT::Install-Recommends=false",
        "-o", "APT::Sandbox::User=root", *wanted,
    )  # fmt: skip
    policy.unlink()
    in_root(root, "apt-get", "clean")


def carry_packages(root: Path, folder: Path) -> None:
    """Download the packages that a bare node lacks, with dependencies, into ``folder``, and write its SHA256SUMS.

    Their files are compressed again: a guest without KVM takes a minute for a second of xz.
    """
    (folder / "partial").mkdir(parents=True)
    options = (*_apt_options(root), "-o", f"Dir::Cache::archives={folder}")
    host.run(
        ("apt-get", *options, "--yes", "--download-only", "install", *CARRIED_PACKAGES), _DOWNLOAD_TIMEOUT_S
    )
    (folder / "partial").rmdir()
    (folder / "lock").unlink(missing_ok=True)
    for package in folder.glob("*.deb"):
        _compress_for_speed(package)
    names = sorted(path.name for path in folder.glob("*.deb"))
    (folder / "SHA256SUMS").write_text(host.run(("sha256sum", *names), 120, cwd=folder), encoding="ascii")


def _compress_for_speed(package: Path) -> None:
    """Replace xz by zstd in a package, whose members deb(5) names by their compression."""
    members = host.run(("ar", "t", str(package)), 60).split()
    if "data.tar.xz" not in members:
        return
    with tempfile.TemporaryDirectory(dir=package.parent) as scratch:
        folder = Path(scratch)
        host.run(("ar", "x", str(package)), 60, cwd=folder)
        host.run(("xz", "--decompress", "data.tar.xz"), 300, cwd=folder)
        host.run(("zstd", "--quiet", "-1", "data.tar"), 300, cwd=folder)
        package.unlink()
        names = (name.replace("data.tar.xz", "data.tar.zst") for name in members)
        host.run(("ar", "rcD", str(package), *names), 60, cwd=folder)


def _kernel_package(depends: str) -> str:
    for line in depends.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "Depends:" and words[1].startswith("linux-image-"):
            return words[1]
    raise LabError(f"apt finds no kernel for {KERNEL_PACKAGE}", hint="is the Debian mirror complete?")


def install_kernel(root: Path, kernel: str, scratch: Path) -> tuple[Path, Path]:
    """Unpack the stock kernel; return its image (in ``scratch``) and its modules' folder (in ``root``).

    The package is unpacked and not installed, because its scripts would build an initramfs with another tool.
    """
    scratch.mkdir()
    host.run(("apt-get", *_apt_options(root), "download", kernel), _DOWNLOAD_TIMEOUT_S, cwd=scratch)
    (package,) = scratch.glob("*.deb")
    host.run(("dpkg-deb", "-x", str(package), str(scratch / "kernel")), 300)
    version = kernel.removeprefix("linux-image-")
    modules = scratch / "kernel/lib/modules" / version
    for name in PRUNED_MODULES:
        shutil.rmtree(modules / "kernel" / name)
    target = root / "usr/lib/modules" / version
    # The headers' package has already put its links to the build tree there.
    shutil.copytree(modules, target, symlinks=True, dirs_exist_ok=True)
    in_root(root, "depmod", version)
    return scratch / "kernel/boot" / f"vmlinuz-{version}", target


def configure(root: Path) -> None:
    """Write the settings that all nodes share, and remove files that must differ between nodes."""
    sshd = root / "etc/ssh/sshd_config.d/clusterctl-lab.conf"
    sshd.write_text(resources.text("templates", "lab", "sshd.conf"), encoding="utf-8")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    # In a container no audit id can be set; a required pam_loginuid would end every session there.
    pam = root / "etc/pam.d/sshd"
    rules = pam.read_text(encoding="utf-8").splitlines(keepends=True)
    eased = (rule.replace("required", "optional") if "pam_loginuid.so" in rule else rule for rule in rules)
    pam.write_text("".join(eased), encoding="utf-8")
    in_root(root, "useradd", "--create-home", "--shell", "/bin/bash", "--uid", str(USER_ID), USER)
    sudoers = root / "etc/sudoers.d/clusterctl-lab"
    sudoers.write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n", encoding="utf-8")
    sudoers.chmod(0o440)

    (root / "etc/systemd/system/clusterctl-lab-rxe.service").write_text(
        resources.text("templates", "lab", "rxe.service"), encoding="utf-8"
    )
    in_root(root, "systemctl", "enable", "clusterctl-lab-rxe", "systemd-networkd", "ssh")
    in_root(root, "systemctl", "mask", *MASKED_UNITS)
    # The rules of rdma-core would rename rxe0 after the card that it runs on.
    (root / "etc/udev/rules.d/60-rdma-persistent-naming.rules").symlink_to("/dev/null")


def finish(root: Path) -> None:
    """Take the machine's id away, and let a first boot find nothing to bring up to date."""
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    # Younger than /usr: the first boot need not rebuild ldconfig's and udev's databases.
    for stamp in (root / "etc/.updated", root / "var/.updated"):
        stamp.touch()
