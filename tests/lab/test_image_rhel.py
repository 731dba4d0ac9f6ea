"""An image of the RHEL family on a real engine: dnf and rpm do the work that the Dockerfile gives them.

dnf, rpm, its database and the engine are real; the system below is Debian's (``dnf_node``), and the packages are
stand-ins with the files that count (``rpm_packages``).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess

import dnf_node
import installed_core
import pytest
import rpm_packages
from rpm_packages import Rpm

from clusterctl import core_wheel
from clusterctl.images import engine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

RUN = f"clusterctl-rhel-{secrets.token_hex(4)}"
MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.1'\n"
RELEASE = "dnf -q -y install rocky-release && dnf -q clean all"
PACKAGES = (
    Rpm("rocky-release", provides=("system-release = 9.4", "system-release(releasever) = 9", "/bin/sh"), version="9.4"),
    Rpm("rdma-core", files={"/etc/libibverbs.d/mlx5.driver": "driver mlx5\n"}),
    Rpm("libibverbs", ("rdma-core",), {"/usr/lib64/libibverbs.so.1": "a library\n"}),
    Rpm("libibverbs-utils", ("libibverbs",), {"/usr/bin/ibv_devices": "#!/bin/sh\nexit 0\n"}),
    Rpm("librdmacm", ("libibverbs",)),
    Rpm("openmpi", files={"/usr/lib64/openmpi/bin/mpirun": MPIRUN, "/usr/lib64/openmpi/lib/libmpi.txt": "a library\n"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def base(docker_engine, tmp_path_factory):
    """The base image: this machine's dnf system, with a repository inside and its release installed."""
    folder = tmp_path_factory.mktemp("rhel")
    root, image = dnf_node.ensure_root(), f"{RUN}:base"
    (folder / "scratch").mkdir()
    rpm_packages.build(PACKAGES, folder / "srv/repository", folder / "scratch")
    rpm_packages.make_repository(folder / "srv/repository")
    (folder / "etc/yum.repos.d").mkdir(parents=True)
    (folder / "etc/yum.repos.d/stand-in.repo").write_text(dnf_node.REPO)
    tar = f"{folder}/base.tar"
    # The engine takes no path twice: of what is added, only what the system has not.
    added = "./srv/repository ./etc/yum.repos.d/stand-in.repo"
    merged = (
        f"tar -C {root} --numeric-owner --exclude='./dev/*' -cf {tar} . && "
        f"tar -C {folder} --owner=0 --group=0 -rf {tar} {added} && docker import - {image} <{tar} && rm {tar}"
    )
    subprocess.run(("bash", "-c", merged), check=True, capture_output=True, timeout=600)
    with engine.connect() as client:
        made = client.containers.run(image, ["sh", "-c", RELEASE], detach=True)
        try:
            assert made.wait(timeout=300)["StatusCode"] == 0, made.logs().decode()
            made.commit(RUN, "base")
        finally:
            made.remove(force=True)
        yield image
        for found in client.images.list(RUN):
            client.images.remove(found.id, force=True)
        for tag in ("base", "built"):
            if client.images.list(f"{RUN}:{tag}"):
                client.images.remove(f"{RUN}:{tag}", force=True)


def test_dnf_installs_every_layer_and_the_library_is_inside(base, run_clusterctl, tmp_path):
    (tmp_path / "installed").mkdir()
    package = core_wheel.packed(installed_core.distribution(tmp_path / "installed")).write(tmp_path)
    given = f"wheel={package}#sha256={hashlib.sha256(package.read_bytes()).hexdigest()}"
    done = run_clusterctl(
        "image", "build", "--base", base, "--tag", f"{RUN}:built", "--package", given, "--json", timeout_s=900
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    document = json.loads(done.stdout)
    # A package that was built beside nvcc has GPU code, and no node has a known GPU to compare it with.
    judged = {finding["judgement"] for finding in document["findings"] if finding["what"] != "GPU code"}
    assert judged == {"fits"}
    contents = {(entry["kind"], entry["name"]) for entry in document["contents"]}
    installed = {("rpm", package.name) for package in PACKAGES}
    assert installed | {("rdma-provider", "mlx5"), ("program", "sshd"), ("program", "mpirun")} <= contents
    assert not any(kind in ("host-key", "deb") for kind, _ in contents)
    with engine.connect() as client:
        asked = (
            "mpirun --version; python3 -c 'import collective_core; print(collective_core.__file__)'; "
            "find /var/cache/dnf -type f -name '*.rpm' -o -name '*primary*'"
        )
        said = client.containers.run(f"{RUN}:built", ["sh", "-c", asked], remove=True).decode().splitlines()
    assert said[:2] == [
        "mpirun (Open MPI) 4.1.1",
        "/opt/clusterctl/library/python/collective_core/__init__.py",
    ]
    # Neither packages nor lists of packages stay in a layer.
    assert said[2:] == []
