"""Render a Kubernetes MPIJob (kubeflow.org/v2beta1): one launcher pod with mpirun, a worker pod per node.

The fields are those of pkg/apis/kubeflow/v2beta1/types.go of the MPI operator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")
_SIZE = re.compile(r"([0-9]+)([bkmg]?)", re.IGNORECASE)
_UNITS = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi"}


def mpijob(
    *,
    name: str,
    workers: int,
    ranks_per_worker: int,
    command: Sequence[str],
    container: ContainerSettings,
    gpus: int | None,
    rdma_resource: str | None = None,
) -> str:
    """Return the manifest for ``workers`` pods of ``ranks_per_worker`` ranks each, which ``command`` starts.

    The operator gives mpirun its hostfile, its remote shell and its keys. The image needs sshd and an mpirun.
    Put secrets into a Secret, not into the command. ``rdma_resource`` is the device plugin's name
    of the RDMA devices, such as ``rdma/hca_shared_devices_a``. Raise ArtifactError without an image, or for a name that
    Kubernetes rejects.
    """
    if container.image is None:
        raise ArtifactError(
            "an MPIJob needs an image", hint="set container.image in the inventory, or use --image"
        )
    if not _NAME.fullmatch(name):
        raise ArtifactError(
            f"{name!r} is not a valid name of a Kubernetes job",
            hint="use at most 42 characters of a-z, 0-9 and '-', starting with a letter",
        )
    # Kubernetes expands $(NAME) to a variable of the pod, and $$ to $, in command and args.
    words = [re.sub(r"\$(?=[$(])", "$$", word) for word in command]
    launcher = {"name": "launcher", "image": container.image, "command": words}
    spec: dict[str, Any] = {
        "slotsPerWorker": ranks_per_worker,
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/root/.ssh",
        "mpiReplicaSpecs": {
            "Launcher": {
                "replicas": 1,
                "restartPolicy": "Never",
                "template": {"spec": {"containers": [launcher]}},
            },
            "Worker": {
                "replicas": workers,
                "restartPolicy": "Never",
                "template": {"spec": _worker(container, gpus, rdma_resource)},
            },
        },
    }
    document = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": spec,
    }
    return yaml.safe_dump(document, sort_keys=False, width=110)


def _worker(container: ContainerSettings, gpus: int | None, rdma_resource: str | None) -> dict[str, Any]:
    limits: dict[str, int] = {}
    if gpus and container.gpus != "none":
        limits["nvidia.com/gpu"] = gpus
    if rdma_resource is not None:
        limits[rdma_resource] = 1
    worker: dict[str, Any] = {"name": "worker", "image": container.image}
    if limits:
        worker["resources"] = {"limits": limits}
    if container.privileged:
        worker["securityContext"] = {"privileged": True}
    elif container.cap_add:
        # Kubernetes has no ulimit: the runtime's memlock limit applies, which IPC_LOCK bypasses for root.
        worker["securityContext"] = {"capabilities": {"add": list(container.cap_add)}}
    spec: dict[str, Any] = {"containers": [worker]}
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    size = _SIZE.fullmatch(container.shm_size or "")
    if size:
        limit = size[1] + _UNITS[size[2].lower()]
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
    for index, text in enumerate(container.volumes):
        # The inventory's volumes exist on every node, as for docker.
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        if not (source.startswith("/") and target.startswith("/")):
            raise ArtifactError(
                f"volume {text!r} must be a path on the nodes: a pod cannot use docker's named volumes",
                hint="write /on/the/host:/in/the/container[:ro]",
            )
        read_only = {"readOnly": True} if "ro" in mode.split(",") else {}
        mounts.append({"name": f"data-{index}", "mountPath": target, **read_only})
        volumes.append({"name": f"data-{index}", "hostPath": {"path": source}})
    if volumes:
        worker["volumeMounts"], spec["volumes"] = mounts, volumes
    return spec
