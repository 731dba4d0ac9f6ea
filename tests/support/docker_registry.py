"""A real registry on this machine: Debian's docker-registry, unpacked and not installed, so that no service is left.

Engines take registries on 127.0.0.0/8 without TLS.
"""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import yaml
from free_ports import free_port

from clusterctl.lab import host
from clusterctl.lab.recipe import cache_folder

_START_TIMEOUT_S = 60


def _program() -> Path:
    """Return the registry's program from the cache; download the package first where it is missing."""
    cache = cache_folder().parent / "test-registry"
    cache.mkdir(parents=True, exist_ok=True)
    done = cache / "docker-registry"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file():
            scratch = cache / "scratch"
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            host.run(
                ("apt-get", "-o", "APT::Sandbox::User=root", "download", "docker-registry"), 300, cwd=scratch
            )
            (package,) = scratch.glob("*.deb")
            host.run(("dpkg-deb", "-x", str(package), str(scratch / "root")), 60)
            (scratch / "root/usr/bin/docker-registry").rename(done)
            shutil.rmtree(scratch)
    return done


@contextmanager
def started(folder: Path, *, user: str | None = None, password: str | None = None) -> Iterator[str]:
    """Give a registry's ``127.0.0.1:PORT``; with ``user`` it wants that account for everything."""
    address = f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": address, "secret": "test"},
    }
    if user is not None and password is not None:
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{user}:{hashed}\n")
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log, subprocess.Popen(
        (str(_program()), "serve", str(folder / "config.yml")), stdout=log, stderr=log
    ) as process:  # fmt: skip
        try:
            _wait(address, process, folder / "log")
            yield address
        finally:
            process.terminate()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    name, _, port = address.partition(":")
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((name, int(port)), timeout=2).close()
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.05)
        else:
            return
