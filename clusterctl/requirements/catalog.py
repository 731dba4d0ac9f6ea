"""All requirements by name, in the order in which they are judged and applied."""

from __future__ import annotations

from clusterctl.requirements.base import Requirement
from clusterctl.requirements.containers import docker
from clusterctl.requirements.containers import toolkit as container_toolkit
from clusterctl.requirements.fleet import accept_tools, cluster_file, mpi, names, python
from clusterctl.requirements.fleet.shared_dir import requirement as shared_dir
from clusterctl.requirements.fleet.ssh_mesh import requirement as ssh_mesh
from clusterctl.requirements.fleet.time_sync import requirement as time_sync
from clusterctl.requirements.gpu import driver as gpu_driver
from clusterctl.requirements.gpu import fabric_manager
from clusterctl.requirements.gpu import health as gpu_health
from clusterctl.requirements.gpu import persistence as gpu_persistence
from clusterctl.requirements.kernel import cpu_governor, disk, memlock, network_buffers, numa_balancing
from clusterctl.requirements.rdma import acs, peermem
from clusterctl.requirements.rdma import link as rdma_link
from clusterctl.requirements.rdma import userspace as rdma_userspace

# Time comes first: package managers reject repository signatures if the clock is years off.
ALL: dict[str, Requirement] = {
    time_sync.NAME: time_sync,
    disk.NAME: disk,
    names.NAME: names,
    gpu_driver.NAME: gpu_driver,
    gpu_persistence.NAME: gpu_persistence,
    fabric_manager.NAME: fabric_manager,
    gpu_health.NAME: gpu_health,
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
    mpi.NAME: mpi,
    python.NAME: python,
    accept_tools.NAME: accept_tools,
}
