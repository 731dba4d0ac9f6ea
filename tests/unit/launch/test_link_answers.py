"""The probe's answers about links: read as sh writes them, on stand-ins for nvidia-smi, and the weakest node."""

import subprocess
from pathlib import Path

import fake_sysfs
import pytest

from clusterctl.launch import link_answers, preflight
from clusterctl.trust.links import NodeLinks, RdmaLink

SAID = {
    "links": ["asked"],
    "nvlinks": [" ".join(["26.562"] * 18)],
    "nvlink_pairs": [" ".join(["18"] * 12)],
    "rdma_port": ["mlx5_0 1 400", "mlx5_1 1 400", "mlx5_9 1 100"],
    "peer_memory": ["nvidia_peermem"],
    "memlock": ["8192"],
}


def test_what_a_node_said():
    links, evidence = link_answers.read(SAID, 4, "=mlx5_0,mlx5_1")
    assert (links.gpus, links.nvlink.generation, links.nvlink.gbps) == (4, 4, 450)
    assert links.rdma == (RdmaLink("mlx5_0", 1, 400), RdmaLink("mlx5_1", 1, 400))
    assert evidence.rdma_ports == ("mlx5_0:1", "mlx5_1:1")
    assert evidence.rdma_named == "=mlx5_0,mlx5_1"
    assert [link_answers.read(SAID, 4, other)[1].rdma_named for other in ("^mlx5_9", "", None)] == [None] * 3
    assert (evidence.peer_memory, evidence.memlock_kib) == (("nvidia_peermem",), 8192)


def test_a_node_without_any_and_one_that_was_not_asked():
    links, evidence = link_answers.read({"links": ["asked"], "memlock": ["unlimited"]}, 0, None)
    assert (links.nvlink, links.rdma, evidence.rdma_ports, evidence.memlock_kib) == (None, (), (), None)
    assert link_answers.read({}, 4, None)[0] is None


@pytest.mark.parametrize(
    ("rate", "links", "generation"), [("25", 12, 3), ("25.781", 12, 3), ("25.781", 6, 2), ("53.125", 18, 5)]
)
def test_the_generation_of_nvlinks_is_that_of_their_rate(rate, links, generation):
    """An A100 says 25 GB/s as a rule (NVIDIA/nccl-tests issue 228)."""
    said = {**SAID, "nvlinks": [" ".join([rate] * links)], "nvlink_pairs": [" ".join([str(links)] * 56)]}
    found = link_answers.read(said, 8, None)[0].nvlink
    assert (found.generation, found.gbps) == (generation, links * (50 if generation == 5 else 25))


@pytest.mark.parametrize("port", ["mlx5_0 x 400", "mlx5_0 1", "mlx5_0 1 fast"])
def test_a_port_that_does_not_say_its_rate_is_left_out(port):
    assert link_answers.read({"links": ["asked"], "rdma_port": [port]}, 0, None)[0].rdma == ()


def test_nics_that_a_launch_leaves_out_bound_nothing():
    links, _ = link_answers.read(SAID, 4, None)
    assert [port.device for port in link_answers.selected(links, "=mlx5_1").rdma] == ["mlx5_1"]
    assert link_answers.selected(links, None) == links
    assert link_answers.selected(None, "mlx5_1") is None


def test_the_weakest_node_bounds_all():
    strong, _ = link_answers.read(SAID, 4, None)
    weak = NodeLinks(4, strong.nvlink, "", strong.rdma[:1])
    assert link_answers.weakest([strong, weak, strong]) is weak
    assert link_answers.weakest([strong, None]) is None
    assert link_answers.weakest([]) is None


def _asked(tmp_path, smi, sys="/sys"):
    """Return what the probe's own lines say, run by sh with a stand-in for nvidia-smi and for /sys."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{smi}\n")
    program.chmod(0o755)
    text = Path(preflight.__file__).with_name("probe.sh").read_text()
    part = text[text.index("# Links between GPUs and between nodes") : text.index("find_program() {")]
    script = 'say() { printf \'%s\\t%s\\n\' "$1" "$2"; }\n' + part.replace("/sys/", f"{sys}/")
    done = subprocess.run(
        ["sh", "-s"], input=script, capture_output=True, text=True, timeout=20, check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stderr == ""
    said = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("\t")
        said.setdefault(name, []).append(value)
    return said


def test_the_probe_reads_nvidia_smi_as_it_is(tmp_path):
    """The recorded output of four H200."""
    recorded = Path(__file__).with_name("nvidia_smi_h200x4")
    said = _asked(
        tmp_path,
        f'case "$1" in nvlink) cat {recorded}/nvlink-s-i-0.txt;; topo) cat {recorded}/topo-m.txt;; '
        "-L) printf 'GPU %d: NVIDIA H200 (UUID: GPU-%d)\\n' 0 7 1 8;; esac",
    )
    links, evidence = link_answers.read(said, 4, None)
    assert (links.nvlink.links, links.nvlink.gbps) == (18, 450)
    assert evidence.rdma_ports is not None
    assert evidence.gpu == "NVIDIA H200"


BRIDGES, NICS = ["mlx5_10", "mlx5_11", "mlx5_8", "mlx5_9"], ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    ("gpu", "vendor", "counted"),
    [
        ("NVIDIA B200", "Supermicro", NICS),
        ("NVIDIA B300 SXM6", "Supermicro", NICS),
        ("NVIDIA H200", "Supermicro", NICS + BRIDGES),
        # Nothing of InfiniBand is a network there.
        ("NVIDIA B200", "Amazon EC2", []),
    ],
)
def test_the_functions_for_the_nvlink_switches_are_no_nics(tmp_path, gpu, vendor, counted):
    fake_sysfs.add_nvlink_bridges(tmp_path / "sys")
    tree = fake_sysfs.Tree(tmp_path / "sys")
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
        tree.link(f"{device}/device", "../..")
        tree.link(f"class/infiniband/mlx5_{number}", f"../../{device}")
    for path in (tmp_path / "sys/class/infiniband").iterdir():
        for name, text in (
            ("link_layer", "InfiniBand"),
            ("state", "4: ACTIVE"),
            ("rate", "400 Gb/sec (4X NDR)"),
        ):
            tree.write(f"class/infiniband/{path.name}/ports/1/{name}", text)
    said = _asked(tmp_path, f"[ \"$1\" != -L ] || echo 'GPU 0: {gpu} (UUID: GPU-7)'", sys=f"{tmp_path}/sys")
    found, evidence = link_answers.read(said, 1, None)
    assert sorted(port.device for port in found.rdma) == sorted(counted)
    assert len(evidence.rdma_ports) == len(found.rdma)
    assert evidence.ec2_machine == ("p6-b200.48xlarge" if vendor == "Amazon EC2" else None)
