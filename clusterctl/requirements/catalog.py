"""All requirements by name, in the order in which they are judged and applied."""

from __future__ import annotations

from clusterctl.requirements import (
    acs,
    cluster_file,
    container_toolkit,
    cpu_governor,
    docker,
    fabric_manager,
    gpu_driver,
    gpu_persistence,
    memlock,
    network_buffers,
    numa_balancing,
    peermem,
    rdma_link,
    rdma_userspace,
    shared_dir,
    ssh_mesh,
    time_sync,
)
from clusterctl.requirements.base import Requirement

# Time comes first: package managers reject repository signatures if the clock is years off.
ALL: dict[str, Requirement] = {
    time_sync.NAME: time_sync,
    gpu_driver.NAME: gpu_driver,
    gpu_persistence.NAME: gpu_persistence,
    fabric_manager.NAME: fabric_manager,
    docker.NAME: docker,
    container_toolkit.NAME: container_toolkit,
    acs.NAME: acs,
    rdma_userspace.NAME: rdma_userspace,
    peermem.NAME: peermem,
    rdma_link.NAME: rdma_link,
    network_buffers.NAME: network_buffers,
    numa_balancing.NAME: numa_balancing,
    cpu_governor.NAME: cpu_governor,
    memlock.NAME: memlock,
    cluster_file.NAME: cluster_file,
    ssh_mesh.NAME: ssh_mesh,
    shared_dir.NAME: shared_dir,
}
