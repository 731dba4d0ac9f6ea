"""A node's links and its evidence for GPUDirect RDMA, from its facts, and the weakest node."""

import subprocess

import facts_recorded
import fake_sysfs
import pytest
from launch_facts import active_ports, facts_of

from clusterctl.facts import probe
from clusterctl.facts.catalog import facts_from
from clusterctl.launch import node_links, readiness
from clusterctl.trust.links import NodeLinks, RdmaLink


def gpus(count, name="NVIDIA H200"):
    header = "index, name, uuid, pci.bus_id, driver_version\n"
    return header + "".join(f"{n}, {name}, GPU-{n}, 00000000:1{n}:00.0, 580.1\n" for n in range(count))


def nvlinks(rate, links):
    lines = "".join(f"\t Link {number}: {rate} GB/s\n" for number in range(links))
    return f"GPU 0: NVIDIA H200 (UUID: GPU-0)\n{lines}GPU 1: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 1 GB/s\n"


def topology(count, links):
    names = [f"GPU{number}" for number in range(count)]
    rows = [[name, *("X" if other == name else f"NV{links}" for other in names)] for name in names]
    return "\n".join("\t".join(row) for row in [["", *names, "CPU Affinity"], *rows]) + "\n"


SAID = {
    "gpu_query": gpus(4),
    "gpu_nvlink": nvlinks("26.562", 18),
    "gpu_topology": topology(4, 18),
    "rdma": active_ports("mlx5_0", "mlx5_1") + active_ports("mlx5_9", rate="100 Gb/sec (4X EDR)"),
    "modules": "/sys/module/nvidia_peermem/version:580.1\n",
}


def read(said, selector=None):
    return node_links.of_facts(facts_of(said), selector)


def test_what_a_node_said():
    links, evidence = read(SAID, "=mlx5_0,mlx5_1")
    assert (links.gpus, links.nvlink.generation, links.nvlink.gbps) == (4, 4, 450)
    assert links.rdma == (RdmaLink("mlx5_0", 1, 400), RdmaLink("mlx5_1", 1, 400))
    assert evidence.rdma_ports == ("mlx5_0:1", "mlx5_1:1")
    assert evidence.rdma_named == "=mlx5_0,mlx5_1"
    assert [read(SAID, other)[1].rdma_named for other in ("^mlx5_9", "", None)] == [None] * 3
    assert (evidence.peer_memory, evidence.memlock_kib) == (("nvidia_peermem",), 8192)


@pytest.mark.parametrize(
    ("modules", "found"),
    [
        ("nvidia_peermem 16384 0 - Live 0x0\n", ("nvidia_peermem",)),
        ("nv_peer_mem 16384 0 - Live 0x0\n", ("nv_peer_mem",)),
        ("ib_core 16384 0 - Live 0x0\n", ()),
    ],
)
def test_modules_that_let_nics_at_gpu_memory(modules, found):
    assert read({"modules": f"/proc/modules:{modules}"})[1].peer_memory == found
    legacy = read({"modules": f"/proc/modules:{modules}/sys/kernel/mm/memory_peers/nv_mem_nc/version:1.3\n"})
    assert set(legacy[1].peer_memory) == {*found, "nv_peer_mem"}


def test_a_node_without_any():
    unlimited = "Max locked memory         unlimited            unlimited            bytes     \n"
    links, evidence = read({"limits": unlimited})
    assert (links.nvlink, links.rdma, evidence.rdma_ports, evidence.memlock_kib) == (None, (), (), None)


@pytest.mark.parametrize(
    ("rate", "links", "generation"), [("25", 12, 3), ("25.781", 12, 3), ("25.781", 6, 2), ("53.125", 18, 5)]
)
def test_the_generation_of_nvlinks_is_that_of_their_rate(rate, links, generation):
    """An A100 says 25 GB/s as a rule (NVIDIA/nccl-tests issue 228)."""
    said = {"gpu_query": gpus(8), "gpu_nvlink": nvlinks(rate, links), "gpu_topology": topology(8, links)}
    found = read({**SAID, **said})[0].nvlink
    assert (found.generation, found.gbps) == (generation, links * (50 if generation == 5 else 25))


@pytest.mark.parametrize("rate", ["", "fast", "Gb/sec"])
def test_a_port_that_does_not_say_its_rate_is_left_out(rate):
    assert read({"rdma": active_ports("mlx5_0", rate=rate)})[0].rdma == ()


def test_a_port_that_is_down_is_left_out():
    assert read({"rdma": active_ports("mlx5_0").replace("4: ACTIVE", "1: DOWN")})[0].rdma == ()


def test_nics_that_a_launch_leaves_out_bound_nothing():
    links, _ = read(SAID)
    assert [port.device for port in node_links.selected(links, "=mlx5_1").rdma] == ["mlx5_1"]
    assert node_links.selected(links, None) == links
    assert node_links.selected(None, "mlx5_1") is None


def test_the_weakest_node_bounds_all():
    strong, _ = read(SAID)
    weak = NodeLinks(4, strong.nvlink, "", strong.rdma[:1])
    assert node_links.weakest([strong, weak, strong]) is weak
    assert node_links.weakest([strong, None]) is None
    assert node_links.weakest([]) is None


def test_nvidia_smi_is_read_as_it_is():
    """The recorded output of four H200."""
    recorded = facts_recorded.load(facts_recorded.CASES / "gpu" / "h200-x4.txt")
    links, evidence = read({name: section.text for name, section in recorded.items()})
    assert (links.gpus, links.nvlink.links, links.nvlink.gbps) == (4, 18, 450)
    assert evidence.gpu == "NVIDIA H200"


def _probed(sys):
    """Return the facts of this machine with another /sys, as its own sh reads them."""
    nonce = "d" * 32
    script = probe.build_script(nonce, subjects=readiness.READS).replace("/sys/", f"{sys}/")
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, timeout=60, check=True)
    answer = probe.split(done.stdout.decode().replace(f"{sys}/", "/sys/"), nonce, readiness.READS)
    return facts_from(
        "n", answer.sections, answer.root, gathered_at=0.0, duration_s=1.0, subjects=readiness.READS
    )


BRIDGES, NICS = ["mlx5_10", "mlx5_11", "mlx5_8", "mlx5_9"], ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    ("board", "functions", "vendor", "counted"),
    [
        (0x2901, 4, "Supermicro", NICS),  # B200
        (0x3182, 4, "Supermicro", NICS),  # B300
        # On other boards two or three functions in one slot are network cards.
        (0x2335, 3, "Supermicro", [*NICS, "mlx5_10", "mlx5_8", "mlx5_9"]),  # H200
        # Nothing of InfiniBand is a network there.
        (0x2901, 4, "Amazon EC2", []),
        (0x2335, 2, "Amazon EC2", []),
    ],
)
def test_the_functions_for_the_nvlink_switches_are_no_nics(tmp_path, board, functions, vendor, counted):
    fake_sysfs.add_nvlink_bridges(tmp_path / "sys", functions)
    tree = fake_sysfs.Tree(tmp_path / "sys")
    tree.write("devices/pci0000:1a/0000:1b:00.0/device", f"0x{board:04x}")
    tree.write("class/dmi/id/sys_vendor", vendor)
    tree.write("class/dmi/id/product_name", "p6-b200.48xlarge")
    for number in range(2):
        folder = tree.pci(
            f"pci0000:40/0000:4{number}:00.0",
            (0x15B3, 0x1021, 0x020700),
            driver="mlx5_core",
            config=b"\0" * 64,
        )
        device = f"{folder}/infiniband/mlx5_{number}"
        for name, text in (
            ("node_guid", "946d:ae03:0000:0001"),
            ("ports/1/link_layer", "InfiniBand"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/rate", "400 Gb/sec (4X NDR)"),
        ):
            tree.write(f"{device}/{name}", text)
        tree.link(f"{device}/device", "../..")
        tree.link(f"class/infiniband/mlx5_{number}", f"../../{device}")
    found, evidence = node_links.of_facts(_probed(tmp_path / "sys"), None)
    assert sorted(port.device for port in found.rdma) == sorted(counted)
    assert len(evidence.rdma_ports) == len(found.rdma)
    assert evidence.ec2_machine == ("p6-b200.48xlarge" if vendor == "Amazon EC2" else None)
