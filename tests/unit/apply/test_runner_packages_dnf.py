"""What dnf says that it would do: what it would remove or downgrade for a package is named, and nothing happens.

dnf and rpm are stand-ins that print the tables of dnf 4 and of dnf 5; the lab's tests run the real ones.
"""

from __future__ import annotations

import os
import shutil

import pytest

from clusterctl.requirements.steps import InstallPackages

HARMLESS_4 = """\
Dependencies resolved.
================================================================================
 Package                     Arch    Version           Repository          Size
================================================================================
Installing:
 docker-ce                   x86_64  3:27.3.1-1.el9    docker-ce-stable    27 M
Installing dependencies:
 a-name-that-is-too-long-for-its-column
                             x86_64  1.0-1             baseos             3.0 M
Upgrading:
 libseccomp                  x86_64  2.5.2-2.el9       baseos              70 k

Transaction Summary
================================================================================
Install  2 Packages
Removing: is no heading here
"""
OBSOLETES_4 = HARMLESS_4.replace(
    "Installing dependencies:", "     replacing  moby-engine.x86_64 24.0-1\nInstalling dependencies:"
)
DEPENDENTS_4 = HARMLESS_4.replace(
    "Upgrading:",
    "Removing dependent packages:\n podman-docker  noarch  4.9-1  @appstream  1 k\n"
    "Downgrading:\n runc  x86_64  1.0  baseos  3 M\nUpgrading:",
)
HARMLESS_5 = """\
Package           Arch   Version    Repository      Size
Installing:
 docker-ce        x86_64 3:27.3.1-1 docker       100 MiB
Upgrading:
 libseccomp       x86_64 2.5.5-2    fedora       170 KiB
   replacing libseccomp x86_64 2.5.3-1 fedora    170 KiB

Transaction Summary:
 Installing:        1 package
"""
OBSOLETES_5 = HARMLESS_5.replace(
    "Upgrading:\n", "   replacing moby-engine x86_64 24.0-1 fedora 9 MiB\nUpgrading:\n"
)

DNF = """
echo "$*" >>{folder}/log
cat {folder}/table
case " $* " in *' --downloadonly '*) exit 0 ;; esac
echo docker-ce >>{folder}/installed
"""
RPM = """
case $1 in
  -q) for name; do :; done; grep -qx -e "$name" {folder}/installed ;;
  -qa) cat {folder}/installed ;;
esac
"""
STEP = InstallPackages("install", "dnf", ("docker-ce",))


@pytest.fixture(params=["bash", "dash"])
def shell(request, tier_unavailable):
    """Without busybox, whose shell has an rpm of its own and runs that: no node with dnf has it for its sh."""
    if shutil.which(request.param) is None:
        tier_unavailable(f"{request.param} is missing")
    return (request.param,)


@pytest.fixture
def dnf(runner, tmp_path):
    """A node without packages, and the environment in which the stand-ins come first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "installed").touch()
    for name, body in (("dnf", DNF), ("rpm", RPM)):
        (folder / name).write_text("#!/bin/sh\n" + body.format(folder=folder))
        (folder / name).chmod(0o755)
    return runner, folder, {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("table", [HARMLESS_4, HARMLESS_5], ids=["dnf4", "dnf5"])
def test_what_only_adds_and_upgrades_is_installed(dnf, table):
    runner, folder, env = dnf
    (folder / "table").write_text(table)
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert (folder / "installed").read_text() == "docker-ce\n"
    assert "--allowerasing" not in (folder / "log").read_text()


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (OBSOLETES_4, "moby-engine"),
        (DEPENDENTS_4, "podman-docker runc"),
        (OBSOLETES_5, "moby-engine"),
    ],
    ids=["obsoletes-4", "dependents-4", "obsoletes-5"],
)
def test_what_would_be_removed_or_downgraded_is_named_and_nothing_happens(dnf, table, named):
    runner, folder, env = dnf
    (folder / "table").write_text(table)
    ran = runner.apply(STEP, env=env)
    assert ran.events(1) == [(1, "failed")]
    assert f"would remove or downgrade {named};" in ran.detail("failed")
    assert (folder / "installed").read_text() == ""
    assert len((folder / "log").read_text().splitlines()) == 1


def test_keys_that_dnf_lets_rpm_trust_in_passing_are_no_packages(dnf):
    runner, folder, env = dnf
    (folder / "table").write_text(HARMLESS_4)
    (folder / "dnf").write_text((folder / "dnf").read_text() + f"echo gpg-pubkey >>{folder}/installed\n")
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert (runner.state / "journal/run1/0001/brings").read_text() == "docker-ce\n"


def test_what_others_install_between_a_failed_try_and_the_next_is_not_what_the_step_brought(dnf):
    runner, folder, env = dnf
    (folder / "table").write_text(HARMLESS_4)
    works = (folder / "dnf").read_text()
    (folder / "dnf").write_text(works.replace("echo docker-ce", "exit 1; echo docker-ce"))
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "failed")]
    (folder / "installed").write_text("htop\n")
    (folder / "dnf").write_text(works)
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert (runner.state / "journal/run1/0001/brings").read_text() == "docker-ce\n"


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (HARMLESS_4, " kernel-devel                x86_64  5.14.0-427.el9    baseos              20 M\n"),
        (HARMLESS_4, " kernel-devel\n                             x86_64  5.14.0-427.el9    baseos  20 M\n"),
        (HARMLESS_5, " kernel-devel     x86_64 0:5.14.0-427.el9 baseos  20 MiB\n"),
    ],
    ids=["dnf4", "dnf4-wrapped", "dnf5"],
)
def test_what_comes_beside_another_version_of_its_own_is_brought_as_well(dnf, table, row):
    runner, folder, env = dnf
    (folder / "table").write_text(table.replace("Installing:\n", f"Installing:\n{row}", 1))
    (folder / "installed").write_text("kernel-devel\nlibseccomp\n")
    beside = "kernel-devel-5.14.0-427.el9.x86_64"
    (folder / "dnf").write_text((folder / "dnf").read_text() + f"echo {beside} >>{folder}/installed\n")
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert (runner.state / "journal/run1/0001/brings").read_text() == f"docker-ce\n{beside}\n"


@pytest.mark.parametrize("works", [True, False])
def test_what_newer_lists_bring_beside_what_was_foreseen_is_brought_as_well(dnf, works):
    runner, folder, env = dnf
    (folder / "table").write_text(HARMLESS_4)
    more = HARMLESS_4.replace(
        "Installing:\n", "Installing:\n needed-by-now  x86_64  1.0-1  docker-ce-stable  1 k\n"
    )
    (folder / "newer").write_text(more)
    at_once = f"echo needed-by-now >>{folder}/installed\n{'' if works else 'exit 1'}\n"
    (folder / "dnf").write_text(
        (folder / "dnf").read_text().replace("exit 0 ;;", f"mv {folder}/newer {folder}/table; exit 0 ;;")
        + at_once
    )
    assert runner.apply(STEP, env=env).events(1)[-1] == (1, "changed" if works else "failed")
    runner.undo(env=env)
    assert (
        "-y --setopt=clean_requirements_on_remove=False remove docker-ce needed-by-now"
        in (folder / "log").read_text()
    )
