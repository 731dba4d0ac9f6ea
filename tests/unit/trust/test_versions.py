"""The versions of image and host side by side, and which of them do not fit together."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from case_facts import facts_of
from launch_facts import Answering

from clusterctl.benchmarks.user_program import UserProgram
from clusterctl.documents.kinds import Compatibility
from clusterctl.facts.model.sharing import Versions
from clusterctl.inventory.model import ContainerSettings, Node
from clusterctl.launch.run import Runner
from clusterctl.trust import versions

PYTHON = "distribution /usr/bin/python3.8 yes yes yes\npython /usr/bin/python3\npython-version 3.8.10\n"
RDMA = {
    "pci": ["0000:02:00.0 020700 15b3:1021 driver=mlx5_core"],
    "rdma": ["mlx5_0 pci=0000:02:00.0 1:ACTIVE:LinkUp:100:Ethernet"],
}


def facts(torch="", packages=(), cuda=(), compat=(), ofed_release=None, verbs=(), **words):
    """Return facts with this torch and these packages of Python, and versions from file names."""
    lines = [f"torch {torch}"] if torch else []
    lines += [f"package {one}" for one in packages]
    found = facts_of({**words, "python": PYTHON + "".join(f"{line}\n" for line in lines)})
    read = Versions(cuda=cuda, cuda_compat=compat, libibverbs=verbs, ofed=ofed_release, cudnn=("8.2.0",))
    return replace(found, versions=read)


def table(found):
    return {
        row.name: (
            [(one.version, one.nodes) for one in row.image],
            [(one.version, one.nodes) for one in row.host],
        )
        for row in found.rows
    }


def test_image_and_host_stand_side_by_side():
    image = facts(
        "1.11.0+cu113", ("horovod 0.28.1",), ("11.3",), ofed_release="MLNX_OFED_LINUX-5.4-3.1.0.0",
        verbs=("1.14.35.0",), **RDMA,
    )  # fmt: skip
    hosts = {
        "gpu01": facts(driver="535.104.05 open", ofed="5.8-2.0.3", os="rocky", **RDMA),
        "gpu02": facts(driver="470.82.01 open", ofed="5.8-2.0.3", os="rocky", **RDMA),
    }
    found = versions.side_by_side(hosts, dict.fromkeys(hosts, image))
    both = ("gpu01", "gpu02")
    rows = table(found)
    assert rows["OS"] == ([("Debian GNU/Linux 12", both)], [("Rocky Linux 9.4", both)])
    assert rows["NVIDIA driver"] == ([], [("535.104.05", ("gpu01",)), ("470.82.01", ("gpu02",))])
    assert rows["RDMA driver"] == ([], [("OFED 5.8-2.0.3", both)])
    assert rows["RDMA libraries"][0] == [("MLNX_OFED_LINUX-5.4-3.1.0.0, rdma-core 35.0", both)]
    assert rows["Python"][0] == [("3.8.10", both)]
    assert rows["CUDA"] == ([("11.3", both)], [(None, both)])
    assert rows["cuDNN"][0] == [("8.2.0", both)]
    assert rows["library"][0] == [("horovod 0.28.1", both)]
    assert rows["torch"] == ([("1.11.0+cu113", both)], [(None, both)])
    assert found.unfit == ()


def test_hosts_without_facts_have_the_drivers_that_a_container_shows():
    found = versions.side_by_side({}, {"gpu01": facts(driver="535.104.05 open")})
    assert table(found)["NVIDIA driver"] == ([], [("535.104.05", ("gpu01",))])
    assert table(found)["torch"] == ([(None, ("gpu01",))], [])


@pytest.mark.parametrize(
    ("driver", "inside", "judgement", "words"),
    [
        ("535.104.05", {"cuda": ("12.2",)}, Compatibility.FITS, "CUDA 12.2 of the image; driver 535.104.05"),
        ("525.60.13", {"cuda": ("12.4",)}, Compatibility.FITS, "without code compiled at run time"),
        ("470.82.01", {"cuda": ("12.4",)}, Compatibility.REFUSED, "supports up to 11.4: upgrade the driver"),
        ("470.82.01", {"cuda": ("12.4",), "compat": ("550.54.15",)}, Compatibility.FITS, "data centre GPUs"),
        ("418.87", {"cuda": ("10.2",)}, Compatibility.REFUSED, "supports up to 10.1"),
        # torch brings its own CUDA, whatever toolkit is beside it.
        ("470.82.01", {"torch": "2.4.0+cu121", "cuda": ("11.3",)}, Compatibility.REFUSED, "CUDA 12.1"),
        (
            "535.104.05",
            {"torch": "2.9.0", "packages": ("nvidia-cuda-runtime 13.0.48",)},
            Compatibility.REFUSED,
            "CUDA 13.0 of the image; driver 535.104.05 supports up to 12.2",
        ),
        # A branch that is newer than the table supports at least what its last row does.
        ("700.10", {"cuda": ("14.0",)}, Compatibility.FITS, "CUDA 14.0"),
        ("340.10", {"cuda": ("9.0",)}, Compatibility.UNKNOWN, "not known"),
    ],
)
def test_cuda_is_judged_by_the_driver(driver, inside, judgement, words):
    host = facts(driver=f"{driver} proprietary")
    (finding,) = versions.side_by_side({"a": host, "b": host}, dict.fromkeys("ab", facts(**inside))).findings
    assert (finding.what, finding.judgement) == ("CUDA", judgement)
    assert words in finding.reason
    assert finding.reason.startswith("a,b: ")


def test_without_a_driver_or_cuda_nothing_is_judged():
    assert versions.side_by_side({"a": facts(cuda=("12.4",))}).findings == ()
    assert versions.side_by_side({"a": facts(driver="535.104.05 open")}).findings == ()


@pytest.mark.parametrize(
    ("inside", "ofed", "judgement", "words"),
    [
        ({"libibverbs": None, "providers": "", "ibv_devices": "absent"}, "absent", Compatibility.REFUSED,
         "the image has no libibverbs for mlx5_0: NCCL uses TCP"),
        ({"providers": "rxe", "ibv_devices": "absent"}, "absent", Compatibility.REFUSED, "no provider mlx5 for mlx5_0"),
        ({}, "absent", Compatibility.FITS, "driver of the kernel"),
        ({"verbs": ("1.14.39.0",)}, "4.9-2.2.4", Compatibility.UNKNOWN, "both sides must be older, or neither"),
        ({"verbs": ("1.0.0",)}, "23.10-0.5.5", Compatibility.UNKNOWN, "libibverbs 1.0.0 of the image"),
        ({"verbs": ("1.0.0",)}, "4.9-2.2.4", Compatibility.FITS, "driver OFED 4.9-2.2.4"),
        ({"verbs": ("1.14.39.0",)}, "23.10-0.5.5", Compatibility.FITS, "rdma-core 39.0 of the image"),
    ],
)  # fmt: skip
def test_the_rdma_libraries_of_the_image_are_judged_by_the_devices_of_the_host(
    inside, ofed, judgement, words
):
    host = facts(ofed=ofed, **RDMA)
    image = facts(**{**RDMA, **inside})
    (finding,) = versions.side_by_side({"gpu01": host}, {"gpu01": image}).findings
    assert (finding.what, finding.judgement) == ("RDMA libraries", judgement)
    assert words in finding.reason


class First(Answering):
    """Of a node that answers the probe when another has claimed its directory."""

    other = threading.Event()

    def run(self, argv, *, stdin=b"", **more):
        if not self.other.is_set():
            assert self.other.wait(60)
        return super().run(argv, stdin=stdin, **more)


class Second(Answering):
    def run(self, argv, *, stdin=b"", **more):
        done = super().run(argv, stdin=stdin, **more)
        if not done.stdout:  # no answer to the probe
            First.other.set()
        return done


def test_nodes_are_in_the_order_of_the_inventory_whichever_answers_first():
    of_node = {"node01": First("node01", {}), "node02": Second("node02", {})}
    nodes = tuple(Node(name=name, address=name) for name in of_node)
    runner = Runner(nodes, lambda node: of_node[node.name], fanout=2)
    runner.prepare({})
    assert {one.nodes for row in runner.versions(None).rows for one in row.host} == {("node01", "node02")}
    # Slurm starts the image together with the ranks, so no probe has seen it.
    program = UserProgram(("true",), container=ContainerSettings(image="debian:12"))
    assert runner.versions(program) is None
