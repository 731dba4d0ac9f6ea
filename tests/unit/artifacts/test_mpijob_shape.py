"""``render mpijob`` field by field: nothing in it that the MPI operator or Kubernetes would not know, or refuse.

The shape is written down from the documents: pkg/apis/kubeflow/v2beta1/types.go of kubeflow/mpi-operator (0.6), and
Kubernetes' PodTemplateSpec, Container, Volume (API reference v1.31). What the API server would drop or refuse, an
unknown name, a wrong type, a missing field, is an error here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from clusterctl.artifacts.mpijob import mpijob
from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123, a label
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
RESOURCE = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*")
CAPABILITY = re.compile(r"[A-Z_]+")
PATH = re.compile(r"/.*")


class Optional:
    """A field that may be absent."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


class Each:
    """A map whose names follow one pattern and whose values are of one shape."""

    def __init__(self, names: re.Pattern[str], shape: Any) -> None:
        self.names, self.shape = names, shape


POSITIVE = range(1, 2**31)
MOUNT = {"name": NAME, "mountPath": PATH, "readOnly": Optional(bool)}
CONTAINER = {
    "name": NAME,
    "image": str,
    "command": Optional([str]),
    "args": Optional([str]),
    "env": Optional([{"name": str, "value": str}]),
    "resources": Optional({"limits": Each(RESOURCE, POSITIVE)}),
    "securityContext": Optional({
        "privileged": Optional(bool), "capabilities": Optional({"add": [CAPABILITY]}),
    }),
    "volumeMounts": Optional([MOUNT]),
}  # fmt: skip
VOLUME = {
    "name": NAME,
    "emptyDir": Optional({"medium": ("", "Memory"), "sizeLimit": Optional(QUANTITY)}),
    "hostPath": Optional({"path": PATH, "type": Optional(("", "Directory", "DirectoryOrCreate", "File"))}),
}
POD = {
    "containers": [CONTAINER],
    "volumes": Optional([VOLUME]),
    "hostNetwork": Optional(bool),
    "hostIPC": Optional(bool),
}
REPLICA = {"replicas": POSITIVE, "restartPolicy": ("Never", "OnFailure"), "template": {"spec": POD}}
MPIJOB = {
    "apiVersion": ("kubeflow.org/v2beta1",),
    "kind": ("MPIJob",),
    "metadata": {"name": NAME},
    "spec": {
        "slotsPerWorker": POSITIVE,
        "runPolicy": {
            "cleanPodPolicy": ("All", "Running", "None"),
            "ttlSecondsAfterFinished": Optional(int),
            "activeDeadlineSeconds": Optional(POSITIVE),
            "backoffLimit": Optional(int),
            "suspend": Optional(bool),
        },
        "launcherCreationPolicy": Optional(("AtStartup", "WaitForWorkersReady")),
        "mpiImplementation": Optional(("OpenMPI", "Intel", "MPICH")),
        "sshAuthMountPath": Optional(PATH),
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
}


def wrong(value: Any, shape: Any, at: str = "") -> list[str]:
    """Return everything in a document that is not of a shape."""
    if isinstance(shape, Optional):
        return wrong(value, shape.shape, at)
    if isinstance(shape, Each):
        if not isinstance(value, Mapping) or not all(shape.names.fullmatch(name) for name in value):
            return [f"{at}: {value!r}"]
        return [text for name, one in value.items() for text in wrong(one, shape.shape, f"{at}.{name}")]
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return [f"{at}: {value!r} is no object"]
        unknown = [f"{at}.{name}: there is no such field" for name in value if name not in shape]
        missing = [
            f"{at}.{name} is missing"
            for name, one in shape.items()
            if not isinstance(one, Optional) and name not in value
        ]
        return [
            *unknown,
            *missing,
            *(t for n, one in value.items() if n in shape for t in wrong(one, shape[n], f"{at}.{n}")),
        ]
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return [f"{at}: {value!r} is no list of something"]
        return [text for i, one in enumerate(value) for text in wrong(one, shape[0], f"{at}[{i}]")]
    if isinstance(shape, re.Pattern):
        good = isinstance(value, str) and shape.fullmatch(value) is not None
    elif isinstance(shape, range):
        good = type(value) is int and value in shape
    elif isinstance(shape, tuple):
        good = value in shape
    else:
        good = type(value) is shape
    return [] if good else [f"{at}: {value!r}"]


def rendered(container: ContainerSettings, **more: Any) -> dict[str, Any]:
    text = mpijob(
        name="all-reduce", workers=2, ranks_per_worker=8,
        command=("mpirun", "-np", "16", "-x", "NCCL_ALGO=Ring", "all_reduce_perf", "-b", "8"),
        container=container, gpus=more.pop("gpus", 8), **more,
    )  # fmt: skip
    found: dict[str, Any] = yaml.safe_load(text)
    return found


PLAIN = {"image": "registry/train:1"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"privileged": True},
        {"shm_size": "65536"},
        {"shm_size": None, "cap_add": ()},
        {"shm_size": "512m", "gpus": "none"},
        {"volumes": ("/data:/data", "/mnt/models:/models:ro")},
    ],
)
@pytest.mark.parametrize("rdma", [None, "rdma/hca_shared_devices_a"])
def test_every_field_is_one_that_the_operator_knows(settings: dict[str, Any], rdma: str | None) -> None:
    document = rendered(ContainerSettings(**PLAIN, **settings), rdma_resource=rdma)
    assert wrong(document, MPIJOB) == []
    for replica in document["spec"]["mpiReplicaSpecs"].values():
        pod = replica["template"]["spec"]
        mounted = [mount["name"] for one in pod["containers"] for mount in one.get("volumeMounts", ())]
        assert sorted(mounted) == sorted(volume["name"] for volume in pod.get("volumes", ()))


def test_data_folders_are_the_nodes_own() -> None:
    settings = ContainerSettings(**PLAIN, volumes=("/data:/data", "/mnt/models:/models:ro"))
    pod = rendered(settings)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod["volumes"]}
    found = [
        (paths[mount["name"]], mount["mountPath"], mount.get("readOnly"))
        for mount in pod["containers"][0]["volumeMounts"]
        if paths[mount["name"]]
    ]
    assert found == [("/data", "/data", None), ("/mnt/models", "/models", True)]


def test_a_volume_of_dockers_is_refused() -> None:
    with pytest.raises(ArtifactError, match="models:/models"):
        rendered(ContainerSettings(**PLAIN, volumes=("models:/models",)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["spec"].update(slotsPerWorkers=8), "spec.slotsPerWorkers: there is no such field"),
        (lambda d: d["spec"].pop("mpiReplicaSpecs"), "spec.mpiReplicaSpecs is missing"),
        (lambda d: d["spec"].update(slotsPerWorker="8"), "spec.slotsPerWorker: '8'"),
        (lambda d: d["spec"]["runPolicy"].update(cleanPodPolicy="none"), "runPolicy.cleanPodPolicy: 'none'"),
        (lambda d: d["metadata"].update(name="All_Reduce"), "metadata.name: 'All_Reduce'"),
    ],
)
def test_the_shape_refuses_what_the_operator_would(change: Any, said: str) -> None:
    document = rendered(ContainerSettings(**PLAIN))
    change(document)
    assert any(said in text for text in wrong(document, MPIJOB))


def expanded(word: str) -> str:
    """Return what Kubernetes makes of a word of a command in a pod whose only variable is HOME.

    As expansion.Expand of k8s.io/kubernetes/third_party/forked/golang: $$ is a $, and an unknown $(NAME) stays.
    """
    return re.sub(r"\$\$|\$\(HOME\)", lambda found: {"$$": "$"}.get(found[0], "/root"), word)


@pytest.mark.parametrize("line", ["echo $$", "echo $(HOME) $(hostname) $HOME", "$$(x)", "a$$$(HOME)$"])
def test_a_shells_dollars_reach_the_shell(line: str) -> None:
    text = mpijob(
        name="j", workers=1, ranks_per_worker=1, command=("mpirun", "sh", "-c", line),
        container=ContainerSettings(**PLAIN), gpus=None,
    )  # fmt: skip
    (launcher,) = yaml.safe_load(text)["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"][
        "containers"
    ]
    assert expanded(launcher["command"][-1]) == line
