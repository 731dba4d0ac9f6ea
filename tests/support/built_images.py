"""Images built by the installed command on a real engine, from a plain Debian and two versions of collective_core."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import secrets
import tarfile
from dataclasses import dataclass
from pathlib import Path

import debian_base
import installed_core

from clusterctl import core_wheel
from clusterctl.images import engine
from clusterctl.images.throwaway import LABEL

RUN = f"clusterctl-test-{secrets.token_hex(4)}"


@dataclass
class Images:
    """The engine, a base, and clusterctl's wheel in two versions that differ in nothing else."""

    client: object
    base: str
    wheels: tuple[Path, Path]
    run: object

    def package(self, version=0):
        path = self.wheels[version]
        return f"wheel={path}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"

    def build(self, tag, *more, base=None, code=0):
        """Run ``image build --json`` and return its document."""
        done = self.run("image", "build", "--base", base or self.base, "--tag", f"{RUN}:{tag}", *more, "--json",
                        timeout_s=1000)  # fmt: skip
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def refusal(self, *more, tag="refused", **named):
        """Return the message and the hint of a build that is refused, and prove that nothing was left."""
        before = self.everything()
        error = self.build(tag, *more, code=9, **named)["error"]
        assert self.everything() == before
        assert error["hint"], error
        return error["message"], error["hint"]

    def everything(self):
        """Names of images and ids of containers: what a refused build must not add to."""
        tags = {tag for image in self.client.images.list() for tag in image.tags if tag.startswith(RUN)}
        made = self.client.containers.list(all=True, filters={"label": LABEL})
        return tags, [container.id for container in made]

    def of_files(self, tag, files, **settings):
        """Import an image of a few files (name to bytes and mode) and return its name."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, (content, mode) in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), mode
                archive.addfile(member, io.BytesIO(content))
        self.client.api.import_image_from_data(data.getvalue(), repository=RUN, tag=tag, **settings)
        return f"{RUN}:{tag}"


@contextlib.contextmanager
def clean_engine():
    """Give the engine's client, and remove what was made under ``RUN`` afterwards."""
    with engine.connect() as client:
        yield client
        for container in client.containers.list(all=True, filters={"name": RUN}):
            container.remove(force=True, v=True)
        # One image keeps the layers of packages in the engine's cache for the next session.
        for image in client.images.list(f"{RUN}:one"):
            image.tag(debian_base.REPOSITORY, "cache")
        for image in client.images.list():
            for tag in image.tags:
                if RUN in tag:
                    client.images.remove(tag, force=True)


def two_wheels(tmp_path_factory):
    """Return collective_core's wheel in two versions."""
    made = []
    for version in ("0.1.0", "0.1.1"):
        (folder := tmp_path_factory.mktemp(version) / "installed").mkdir()
        made.append(core_wheel.packed(installed_core.distribution(folder, version)).write(folder.parent))
    return tuple(made)


def put(box, path, data):
    """Write a file of bytes into a container, in a directory of its own user alone."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        folder = tarfile.TarInfo(str(Path(path).parent).lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(folder)
        member = tarfile.TarInfo(path.lstrip("/"))
        member.size, member.mode = len(data), 0o600
        tar.addfile(member, io.BytesIO(data))
    box.put_archive("/", archive.getvalue())
