"""Connect to a docker engine, and add hints to its errors."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clusterctl.errors import ClusterctlError, ImageError

if TYPE_CHECKING:
    import docker

OLDEST = (20, 10)
"""The oldest engine that is supported (December 2020: the first with cgroup v2 and platform checks)."""
_TIMEOUT_S = 600
_PROBE_TIMEOUT_S = 10.0
_DEFAULT = "unix:///var/run/docker.sock"
_INSTALL = (
    "on Debian or Ubuntu, as root: apt-get install --no-install-recommends docker.io iptables"
    " && systemctl start docker (without systemd: dockerd &)"
)


def _probe_socket() -> None:
    # If the engine does not listen, the SDK leaks its socket; a plain connect avoids that.
    scheme, _, path = os.environ.get("DOCKER_HOST", _DEFAULT).partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            probe.connect(path)


@contextmanager
def connect(failure: type[ClusterctlError] = ImageError) -> Iterator[docker.DockerClient]:
    """Yield a client of the engine that $DOCKER_HOST names, or of this machine's.

    Raise ``failure`` if the engine does not answer or is too old, and instead of the SDK's exceptions in the body.
    """
    import docker
    import requests
    import urllib3

    try:
        _probe_socket()
        client = docker.from_env(timeout=_TIMEOUT_S)
    except PermissionError as error:
        raise failure(
            f"this user may not use the docker engine: {error.strerror} ({error.filename or _DEFAULT})",
            hint="run it as root, or add this user to the group docker and log in again",
        ) from None
    except (docker.errors.DockerException, OSError) as error:
        raise failure(f"no docker engine answers on this machine: {error}", hint=_INSTALL) from None
    try:
        _refuse_old(client, failure)
        yield client
    except docker.errors.APIError as error:
        raise failure(
            f"the docker engine reports an error: {error.explanation or error}",
            hint=hint(str(error.explanation)),
        ) from error
    # The output of a build or pull is read without requests, so a dying engine raises urllib3's error.
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise failure(
            f"the docker engine stopped answering: {error}",
            hint="check with docker info whether it runs, and read its log",
        ) from None
    finally:
        client.close()


def _refuse_old(client: docker.DockerClient, failure: type[ClusterctlError]) -> None:
    version = str(client.version().get("Version") or "")
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise failure(
            f"the docker engine is {version}, older than {OLDEST[0]}.{OLDEST[1]}, the oldest supported version",
            hint="upgrade it: https://docs.docker.com/engine/install/",
        )


# Messages of engines and registries, each with a hint; the first match is used.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded",
        "the engine's disk is full: docker system df shows its use, docker system prune frees space",
    ),
    (
        r"no matching manifest for|does not match the specified platform|exec format error",
        "the image is for another architecture: name one for this machine's (uname -m)",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|not found: manifest|No such image",
        "this tag does not exist: check its spelling and the tags in the registry",
    ),
    (
        r"pull access denied|repository does not exist|name unknown|requested access to the resource is denied",
        "the repository does not exist or needs a login: docker login REGISTRY",
    ),
    (
        r"unauthorized|authentication required|no basic auth credentials",
        "run docker login REGISTRY and try again",
    ),
    (
        r"server gave HTTP response to HTTPS client",
        "the registry uses plain HTTP: list it under insecure-registries in the engine's daemon.json",
    ),
    (
        r"x509:|certificate signed by unknown authority",
        "put the registry's CA into /etc/docker/certs.d/REGISTRY/ca.crt on the engine's machine",
    ),
    (r"toomanyrequests|rate limit", "the registry limits anonymous pulls: docker login REGISTRY, or wait"),
    (
        r"connection refused|no such host|i/o timeout|TLS handshake timeout|network is unreachable|Client\.Timeout",
        "the engine cannot reach the registry: check its name, the engine's proxy and the network",
    ),
)


def hint(message: str) -> str | None:
    """Return the hint for a message of an engine or a registry; None for an unknown message."""
    return next((advice for pattern, advice in _HINTS if re.search(pattern, message, re.IGNORECASE)), None)
