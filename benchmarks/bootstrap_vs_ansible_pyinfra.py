"""Time ``bootstrap``: with nothing to do against ``check``; with ten files and five commands against its peers.

All on the same sshd nodes in one run; every rival finds none of the files. The work of clusterctl is
``scratch_bootstrap.py``: judged, planned, journalled, applied, read back and judged again.

    python benchmarks/bootstrap_vs_ansible_pyinfra.py [--nodes 64] [--rounds 3] [--quick] [--venv DIR]
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from check_vs_ansible import ansible_env, ansible_inventory, pyinfra_inventory
from scratch_bootstrap import FILES, MARKS, content
from side_by_side import (
    CLUSTERCTL,
    Farm,
    Goal,
    Rival,
    drop_connections,
    nodes_and_folder,
    options,
    ours,
    report,
    rivals_in,
    seen_by,
    take_turns,
    versions,
)


def rivals(farm: Farm, folder: Path, programs: Path) -> list[Rival]:
    """Return the bootstrap with work to do, and the equal playbook and deploy."""
    count, work = len(farm.nodes), folder / "work"
    theirs = work / "{{ inventory_hostname }}"
    texts = {name: content(name, "NODE") for name in FILES}
    copies = {
        str(theirs / name): text.replace("NODE", "{{ inventory_hostname }}") for name, text in texts.items()
    }
    marks = [str(theirs / name) for name in MARKS]
    tasks = [
        {"ansible.builtin.file": {"path": str(theirs), "state": "directory"}},
        *({"ansible.builtin.copy": {"dest": path, "content": text}} for path, text in copies.items()),
        *({"ansible.builtin.command": {"argv": ["touch", path], "creates": path}} for path in marks),
    ]
    (folder / "playbook.json").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    (folder / "deploy.py").write_text(
        "from io import StringIO\nfrom pyinfra import host\nfrom pyinfra.operations import files, server\n"
        f"texts = {texts!r}\nfolder = {str(work)!r} + '/' + host.name\nfiles.directory(path=folder)\n"
        "for name, text in texts.items():\n"
        "    files.put(src=StringIO(text.replace('NODE', host.name)), dest=f'{folder}/{name}')\n"
        f"for name in {MARKS!r}:\n"
        "    server.shell(commands=[f'test -e {folder}/{name} || touch {folder}/{name}'])\n"
    )

    def all_there(_output: str) -> None:
        folders = [
            inner for node in farm.nodes for inner in seen_by(node, work).iterdir() if inner.name != "state"
        ]
        found = sum(len(list(inner.iterdir())) for inner in folders)
        if found != count * (len(FILES) + len(MARKS)):
            raise SystemExit(f"{found} files on {count} nodes")

    return [
        Rival("clusterctl bootstrap, 10 files, 5 commands",
              (sys.executable, str(Path(__file__).with_name("scratch_bootstrap.py")), str(farm.inventory(folder)),
               str(work), str(folder / "runs")),
              ours(farm, folder), proof=all_there),
        Rival("pyinfra, the equal deploy", (str(programs / "pyinfra"), "-y", "--parallel", str(count),
              str(pyinfra_inventory(farm, folder)), str(folder / "deploy.py")), proof=all_there),
        Rival("ansible-playbook, the equal tasks",
              (str(programs / "ansible-playbook"), "-i", str(ansible_inventory(farm, folder)), "-f", str(count),
               str(folder / "playbook.json")), ansible_env(folder), proof=all_there),
    ]  # fmt: skip


def settled(farm: Farm, folder: Path) -> tuple[str, ...]:
    """Return the requirements of which no node needs anything, so that their bootstrap changes nothing."""
    check = Rival(
        "", (CLUSTERCTL, "check", str(farm.inventory(folder)), "--json"), ours(farm, folder), (0, 1)
    )
    report = json.loads(check.run(folder / "settled.out"))
    open_ = {
        v["requirement"]
        for node in report["nodes"]
        for v in node["verdicts"]
        if v["status"] in ("unmet", "unknown")
    }
    every = {v["requirement"] for node in report["nodes"] for v in node["verdicts"]}
    return tuple(sorted(every - open_))


def main() -> int:
    """Measure, print the table, and return 1 when a goal is missed."""
    chosen = options("clusterctl bootstrap against ansible and pyinfra", 64, 8)
    with nodes_and_folder(chosen.nodes, private=("work",)) as (farm, folder):
        programs = rivals_in(chosen.venv or folder / "venv", "ansible-core", "pyinfra")
        only = ",".join(settled(farm, folder))
        inventory = str(farm.inventory(folder))
        idle = [
            Rival("clusterctl check", (CLUSTERCTL, "check", inventory, "--only", only, "--json"), ours(farm, folder)),
            Rival("clusterctl bootstrap, nothing to do",
                  (CLUSTERCTL, "bootstrap", inventory, "--only", only, "--yes", "--json"), ours(farm, folder)),
        ]  # fmt: skip
        take_turns(idle, chosen.rounds, folder, lambda: None)
        work = rivals(farm, folder, programs)
        drop = drop_connections(farm)

        def afresh() -> None:
            drop()
            for node in farm.nodes:
                for inner in seen_by(node, folder / "work").iterdir():
                    shutil.rmtree(inner)

        take_turns(work, chosen.rounds, folder, afresh)
        names = versions(programs, "ansible-core", "pyinfra")
    check, nothing = idle
    bootstrap, pyinfra, ansible = work
    title = f"{chosen.nodes} sshd nodes, medians of {chosen.rounds}; {names}"
    first = report(
        f"{title}; requirements: {only}", idle,
        (Goal("speed of bootstrap with nothing to do, x check", check.wall / nothing.wall, 0.83, True),),
    )  # fmt: skip
    second = report(
        title,
        work,
        (
            Goal("ansible's playbook, x bootstrap", ansible.wall / bootstrap.wall, 25, True),
            Goal("pyinfra's deploy, x bootstrap", pyinfra.wall / bootstrap.wall, 2, True),
        ),
    )
    return first or second


if __name__ == "__main__":
    sys.exit(main())
