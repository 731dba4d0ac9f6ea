"""A client of a docker engine, and the engine's refusals as errors that say what to do."""

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
    # Where nobody listens, the SDK drops its socket without closing it; a plain connect tidies up.
    scheme, _, path = os.environ.get("DOCKER_HOST", _DEFAULT).partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            probe.connect(path)


@contextmanager
def connect(failure: type[ClusterctlError] = ImageError) -> Iterator[docker.DockerClient]:
    """Give a client of the engine that $DOCKER_HOST names, else of this machine's.

    Raise ``failure`` when none answers, when it is too old, and in place of what the SDK raises in the body.
    """
    import docker
    import requests
    import urllib3

    try:
        _probe_socket()
        client = docker.from_env(timeout=_TIMEOUT_S)
    except PermissionError as error:
        raise failure(
            f"this user may not talk to the docker engine: {error.strerror} ({error.filename or _DEFAULT})",
            hint="run it as root, or have yourself added to the group docker and log in again",
        ) from None
    except (docker.errors.DockerException, OSError) as error:
        raise failure(f"no docker engine answers on this machine: {error}", hint=_INSTALL) from None
    try:
        _refuse_old(client, failure)
        yield client
    except docker.errors.APIError as error:
        raise failure(
            f"the docker engine refuses: {error.explanation or error}", hint=hint(str(error.explanation))
        ) from error
    # What a build or a pull says is read past requests: there it is urllib3 that notices an engine's end.
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise failure(
            f"the docker engine stopped answering: {error}",
            hint="does it still run? docker info; its log says why",
        ) from None
    finally:
        client.close()


def _refuse_old(client: docker.DockerClient, failure: type[ClusterctlError]) -> None:
    version = str(client.version().get("Version") or "")
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise failure(
            f"the docker engine is {version}, older than {OLDEST[0]}.{OLDEST[1]}, the oldest that is supported",
            hint="bring it up to date: https://docs.docker.com/engine/install/",
        )


# What engines and registries say, and what to do about it; the first that matches counts.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device|disk quota exceeded",
        "the engine's disk is full: docker system df says of what, docker system prune makes room",
    ),
    (
        r"no matching manifest for|does not match the specified platform|exec format error",
        "the image is for another architecture: name one for this machine's (uname -m)",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|not found: manifest|No such image",
        "that tag does not exist: look for a typing error, or for the tags that the registry has",
    ),
    (
        r"pull access denied|repository does not exist|name unknown|requested access to the resource is denied",
        "there is no such repository, or you may not use it: docker login REGISTRY",
    ),
    (r"unauthorized|authentication required|no basic auth credentials", "docker login REGISTRY, then again"),
    (
        r"server gave HTTP response to HTTPS client",
        "the registry speaks plain HTTP: name it under insecure-registries in the engine's daemon.json",
    ),
    (
        r"x509:|certificate signed by unknown authority",
        "put the registry's CA into /etc/docker/certs.d/REGISTRY/ca.crt on the engine's machine",
    ),
    (r"toomanyrequests|rate limit", "the registry counts anonymous pulls: docker login REGISTRY, or wait"),
    (
        r"connection refused|no such host|i/o timeout|TLS handshake timeout|network is unreachable|Client\.Timeout",
        "the registry is out of the engine's reach: check its name, the proxy of the engine, the network",
    ),
)


def hint(message: str) -> str | None:
    """Return what to do about a message of an engine or a registry; None where that is not known."""
    return next((advice for pattern, advice in _HINTS if re.search(pattern, message, re.IGNORECASE)), None)
