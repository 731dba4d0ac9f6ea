"""The script around a rank that has NCCL write on every node, and the collection of what it wrote; in real shells."""

import subprocess
from dataclasses import replace

import pytest

from clusterctl.inventory.model import Node
from clusterctl.launch import nccl_dumps
from clusterctl.launch.readiness import assumed

TORCH = ("python3", "/tmp/clusterctl-x/workloads.pyz", "training")
PERF = ("/opt/all_reduce_perf", "-b", "8")
SHELLS = (("dash",), ("bash",), ("busybox", "sh"))
SAYS = (
    "echo ${NCCL_TOPO_DUMP_FILE_RANK-unset} ${NCCL_GRAPH_DUMP_FILE_RANK-unset} "
    "${NCCL_TOPO_DUMP_FILE##*/} ${NCCL_GRAPH_DUMP_FILE##*/}"
)
PLACES = {
    "openmpi": {"OMPI_COMM_WORLD_RANK": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
    "mpich": {"PMI_RANK": "8", "MPI_LOCALRANKID": "0"},
    "srun": {"SLURM_PROCID": "8", "SLURM_LOCALID": "0"},
    "local": {"RANK": "8", "LOCAL_RANK": "0"},
    "torchrun": {"TORCHELASTIC_RUN_ID": "x", "RANK": "8", "LOCAL_RANK": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"},
}  # fmt: skip


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "launch dir"
    folder.mkdir()
    for name, data in nccl_dumps.staged().items():
        (folder / name).write_bytes(data)
    return folder


def run(shell, directory, env):
    wrapped = nccl_dumps.wrapped(("sh", "-c", SAYS), str(directory))
    variables = {**nccl_dumps.variables(str(directory)), "PATH": "/usr/bin:/bin", **env}
    done = subprocess.run([*shell, *wrapped[1:]], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_first_rank_of_a_node_writes_under_its_number(shell, directory):
    for place in PLACES.values():
        assert run(shell, directory, place) == "8 8 nccl-topo.xml.8 nccl-graph.xml.8"
        others = {
            name: "9" if value == "8" else "1" if value == "0" else value for name, value in place.items()
        }
        assert run(shell, directory, others) == "unset unset nccl-topo.xml nccl-graph.xml"
    # A file that the inventory names is the user's own.
    mine = {**PLACES["openmpi"], "NCCL_TOPO_DUMP_FILE": "/mine.xml"}
    assert run(shell, directory, mine) == "unset 8 mine.xml nccl-graph.xml.8"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_files_are_printed_and_the_directory_is_removed(shell, directory):
    (directory / "nccl-topo.xml").write_text("<system>stale</system>\n")
    (directory / "nccl-topo.xml.8").write_text("<system>\n  a\n</system>\n")
    (directory / "nccl-graph.xml.8").write_text("<graphs/>")
    (directory / "nccl-graph.xml.9").write_text("")
    done = subprocess.run(shell, input=nccl_dumps.collecting(str(directory)), capture_output=True, check=True)
    assert done.stderr == b"" and not directory.exists()
    files = nccl_dumps.collected(done.stdout.decode())
    # The second node shares the directory, which the first one had already removed.
    dumps = nccl_dumps.by_node(
        {"gpu01": 0, "gpu02": 8, "gpu03": 16}, {"gpu01": files, "gpu02": {}, "gpu03": {}}
    )
    assert dumps["gpu02"] == nccl_dumps.NcclDump(8, "<system>\n  a\n</system>", "<graphs/>")
    again = subprocess.run(
        shell, input=nccl_dumps.collecting(str(directory)), capture_output=True, check=False
    )
    assert nccl_dumps.collected(again.stdout.decode()) == {}


@pytest.mark.parametrize(
    ("known", "program", "expected"),
    [
        ({"nccl": ("2.28.3", "2.27.5 (Python)")}, PERF, True),
        ({"nccl": ("2.21.5",)}, PERF, True),
        # Its ranks beyond the first node would end the run.
        ({"nccl": ("2.28.3", "2.20.5 (Python)")}, PERF, False),
        ({"nccl": ()}, PERF, False),
        ({"nccl": (), "torch": "2.5.1+cu124"}, TORCH, True),
        ({"nccl": ("2.28.3",), "torch": "2.4.0"}, TORCH, False),
        ({"nccl": ("2.28.3",), "imex": True}, PERF, False),
    ],
)
def test_graphs_are_written_on_all_nodes_only_by_an_nccl_that_can(known, program, expected):
    node = Node(name="gpu01", address="gpu01", gpus=8)
    first = replace(assumed(node), torch=None, nccl=("2.28.3",))
    assert nccl_dumps.writes_graphs([first, replace(first, **known)], program) is expected
    assert list(nccl_dumps.variables("/d", graphs=False)) == ["NCCL_TOPO_DUMP_FILE"]
