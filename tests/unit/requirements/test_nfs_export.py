"""Who may mount the shared directory, run after run: the real script over its own table, exportfs a stand-in."""

from __future__ import annotations

import os
import subprocess

import pytest
from case_facts import facts_of

from clusterctl.requirements.fleet.shared_dir import export as exports

FOLDER = "/srv/shared"
# exports(5) keeps its table as DIRECTORY<tab>CLIENT(OPTIONS).
EXPORTFS = """#!/bin/sh
[ ! -e {folder}/silent ] || exit 0
for what in "$@"; do :; done
name=${{what%%:/*}} path=/${{what#*:/}} tab=$(printf '\\t')
grep -vF "$path$tab$name(" {folder}/etab >{folder}/etab.new
[ "$1" = -u ] || printf '%s\\t%s(%s)\\n' "$path" "$name" "$3" >>{folder}/etab.new
mv {folder}/etab.new {folder}/etab
"""


class Server:
    """A server: its table, what clusterctl's file says, and the steps of a bootstrap and its undo."""

    def __init__(self, folder):
        self.folder, self.etab, self.file = folder, folder / "etab", ""
        self.etab.touch()
        (folder / "bin").mkdir()
        (folder / "bin/exportfs").write_text(EXPORTFS.format(folder=folder))
        (folder / "bin/exportfs").chmod(0o755)

    def run(self, argv):
        text = (
            argv[2].replace("/var/lib/nfs/etab", str(self.etab)).replace("/proc/fs/nfsd/clients", "/nowhere")
        )
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(("sh", "-c", text, *argv[3:]), env=env, timeout=30, check=False).returncode

    def bootstrap(self, *addresses, squash_root=False):
        """Export to these and write the file; return the undo."""
        lines = [f"{exports.EXPORTS}:{line}" for line in self.file.splitlines()]
        lines += [f"/var/lib/nfs/etab:{line}" for line in self.etab.read_text().splitlines()]
        nfs = "\n".join([*lines, "threads 8", "wants nfs-server.service", ""])
        steps = exports.export_steps(facts_of({"nfs": nfs}), FOLDER, addresses, squash_root=squash_root)
        assert [self.run(step.argv) for step in steps] == [0] * len(steps)
        before, self.file = self.file, exports.line(FOLDER, addresses, squash_root=squash_root) + "\n"

        def undo():
            self.file = before
            assert [self.run(step.undo) for step in reversed(steps)] == [0] * len(steps)

        return undo

    @property
    def table(self):
        return sorted(line.replace("\t", " ") for line in self.etab.read_text().splitlines())


@pytest.fixture
def server(tmp_path):
    """A server that exports nothing."""
    return Server(tmp_path)


def _let_in(*addresses, squash="no_root_squash"):
    return [f"{FOLDER} {address}(rw,sync,no_subtree_check,{squash})" for address in addresses]


def test_the_undo_of_a_later_run_leaves_alone_who_could_mount_before_it(server):
    first = server.bootstrap("10.0.0.2")
    second = server.bootstrap("10.0.0.2", "10.0.0.3")
    assert server.table == _let_in("10.0.0.2", "10.0.0.3")
    second()
    assert server.table == _let_in("10.0.0.2")
    first()
    assert server.table == []


def test_the_undo_lets_in_again_whom_its_run_shut_out(server):
    server.bootstrap("10.0.0.2", "10.0.0.9")
    second = server.bootstrap("10.0.0.2")
    assert server.table == _let_in("10.0.0.2")
    second()
    assert server.table == _let_in("10.0.0.2", "10.0.0.9")


def test_the_undo_gives_back_the_options_of_before(server):
    server.bootstrap("10.0.0.2", squash_root=True)
    second = server.bootstrap("10.0.0.2")
    assert server.table == _let_in("10.0.0.2")
    second()
    assert server.table == _let_in("10.0.0.2", squash="root_squash")


def test_the_export_of_a_folder_whose_name_ends_alike_is_another(server):
    server.etab.write_text(f"/mnt{FOLDER}\t10.0.0.2(rw)\n")
    (server.folder / "silent").touch()
    (step,) = exports.export_steps(facts_of({}), FOLDER, ("10.0.0.2",), squash_root=False)
    assert server.run(step.argv) == 1, "exportfs said nothing, and did nothing"
