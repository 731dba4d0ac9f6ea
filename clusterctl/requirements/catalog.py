"""All requirements by name, in the order in which they are judged and applied."""

from __future__ import annotations

from clusterctl.requirements import acs, cpu_governor, docker, memlock, peermem, rdma_link, rdma_userspace
from clusterctl.requirements.base import Requirement

ALL: dict[str, Requirement] = {
    acs.NAME: acs,
    peermem.NAME: peermem,
    rdma_userspace.NAME: rdma_userspace,
    rdma_link.NAME: rdma_link,
    memlock.NAME: memlock,
    cpu_governor.NAME: cpu_governor,
    docker.NAME: docker,
}
