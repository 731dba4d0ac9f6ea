"""A plain Debian as a base image: what debootstrap makes, kept in the cache, imported into the docker engine."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import shutil
from pathlib import Path

from clusterctl import resources
from clusterctl.lab import host
from clusterctl.lab.recipe import cache_folder, current

REPOSITORY = "clusterctl-test-base"


def ensure(client) -> str:
    """Return the name of the image; build and import it first (half a minute) where there is none."""
    recipe = current()
    text = "\0".join((inspect.getsource(_build), repr(recipe.sources), recipe.suite))
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    cache = cache_folder().parent / "test-base"
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{REPOSITORY}:{key}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = cache / f"{key}.tar"
        if not archive.is_file():
            for old in cache.glob("*.tar"):
                old.unlink()
            _build(recipe, cache / "building", archive)
        if not any(name in image.tags for image in client.images.list(REPOSITORY)):
            client.api.import_image(src=str(archive), repository=REPOSITORY, tag=key)
    return name


def _build(recipe, root: Path, archive: Path) -> None:
    if root.exists():
        shutil.rmtree(root)
    argv = (
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap"),
        *("--force-check-gpg", f"--keyring={host.DEBIAN_KEYRING}"),
        *("--variant=minbase", "--include=ca-certificates", recipe.suite, str(root)),
    )
    host.run((*argv, recipe.mirror) if recipe.mirror else argv, 1200)
    if recipe.sources:
        (root / "etc/apt/sources.list").write_text("".join(f"{source.line()}\n" for source in recipe.sources))
    # As Debian's own images for docker: what is thrown away when a build fails needs no fsync.
    (root / "etc/dpkg/dpkg.cfg.d/clusterctl-test").write_text(resources.text("templates", "lab", "dpkg.cfg"))
    excludes = (
        f"--exclude={pattern}" for pattern in ("./var/cache/apt/*", "./var/lib/apt/lists/*", "./dev/*")
    )
    partial = archive.with_suffix(".partial")
    host.run(("tar", "-C", str(root), "--numeric-owner", *excludes, "-cf", str(partial), "."), 300)
    partial.rename(archive)
    shutil.rmtree(root)
