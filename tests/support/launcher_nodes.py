"""A farm's nodes as every launcher needs them: what there is of each launcher here, and the inventory that names it."""

from __future__ import annotations

import shutil
import sys

import mpi_wheels

LAUNCHERS = ("openmpi4", "openmpi5", "mpich", "torchrun", "srun")
# What --launcher says, and what ``mpirun`` names in the inventory.
NAMES = {
    "openmpi4": "openmpi",
    "openmpi5": "openmpi",
    "mpich": "mpich",
    "torchrun": "torchrun",
    "srun": "srun",
}


def ready(request, name, tier_unavailable):
    """Make sure that a launcher is there; return its name and the inventory's settings for it."""
    if name == "openmpi4":
        if shutil.which("mpirun") is None:
            tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
        return name, {}
    if name in mpi_wheels.WHEELS:
        return name, {"mpirun": mpi_wheels.mpirun(name)}
    if name == "srun":
        request.getfixturevalue("slurm")
    return name, {}


def inventory(farm, tmp_path, settings, slots):
    """The farm's nodes, each with its number of slots."""
    path = farm.inventory(tmp_path, socket_ifname="lo", python=sys.executable, **settings)
    text = path.read_text()
    for node, count in zip(farm.nodes, slots, strict=True):
        text = text.replace(f"  - name: {node.name}\n", f"  - name: {node.name}\n    slots: {count}\n")
    path.write_text(text)
    return str(path)
