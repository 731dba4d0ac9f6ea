"""Pushing to a real registry with docker's own credentials, which appear nowhere else; pulling a base from it."""

from __future__ import annotations

import base64
import json
import secrets

import docker_registry
import pytest

from clusterctl.errors import ImageError
from clusterctl.images import base_image, engine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PASSWORD = f"planted-{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
def registry(docker_engine, tmp_path_factory):
    with docker_registry.started(
        tmp_path_factory.mktemp("registry"), user="ci", password=PASSWORD
    ) as address:
        yield address


@pytest.fixture
def image(registry):
    """A small image named for the registry."""
    name = f"{registry}/team/train"
    with engine.connect() as client:
        # An empty tar file is a root filesystem without files.
        client.api.import_image_from_data(bytes(10240), repository=name, tag="1")
        yield f"{name}:1"
        for found in client.images.list(name):
            client.images.remove(found.id, force=True)


@pytest.fixture
def logged_in(registry, tmp_path):
    """Return the environment of a user who ran ``docker login``."""
    auth = base64.b64encode(f"ci:{PASSWORD}".encode()).decode()
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))
    return {"DOCKER_CONFIG": str(tmp_path / "docker")}


def silent(done):
    """Return what a command said, proven to hold no password in any of its usual forms."""
    said = done.stdout + done.stderr
    for form in (
        PASSWORD,
        base64.b64encode(PASSWORD.encode()).decode(),
        base64.b64encode(f"ci:{PASSWORD}".encode()).decode(),
    ):
        assert form not in said
    return said


def test_the_digest_that_is_printed_is_that_of_the_registry(run_clusterctl, image, logged_in):
    done = run_clusterctl("-v", "image", "push", image, "--json", env=logged_in)
    assert done.returncode == 0, silent(done)
    document = json.loads(done.stdout)
    silent(done)
    with engine.connect() as client:
        digests = client.images.get(image).attrs["RepoDigests"]
    assert digests == [f"{image.rpartition(':')[0]}@{document['digest']}"]

    plain = run_clusterctl("image", "push", image, env=logged_in)
    assert plain.stdout.strip() == digests[0]


def test_without_credentials_it_is_refused_with_what_to_do(run_clusterctl, image, tmp_path):
    (tmp_path / "none").mkdir()
    done = run_clusterctl("image", "push", image, env={"DOCKER_CONFIG": str(tmp_path / "none")})
    assert done.returncode == 9
    assert "docker login" in silent(done)


def test_a_registry_that_is_not_there_is_named(run_clusterctl, docker_engine):
    name = "127.0.0.1:9/team/train:1"
    with engine.connect() as client:
        client.api.import_image_from_data(bytes(10240), repository=name.rpartition(":")[0], tag="1")
        try:
            done = run_clusterctl("image", "push", name)
        finally:
            client.images.remove(name, force=True)
    assert done.returncode == 9
    assert "connection refused" in done.stderr and "the engine cannot reach the registry" in done.stderr


def test_an_image_that_the_engine_has_not_is_named(run_clusterctl, docker_engine):
    done = run_clusterctl("image", "push", "nothing-of-that-name:1")
    assert done.returncode == 9
    assert "the engine has no image nothing-of-that-name:1" in done.stderr


def test_a_tag_that_does_not_exist_is_told_from_a_registry_that_refuses(
    run_clusterctl, image, registry, logged_in, monkeypatch
):
    assert run_clusterctl("image", "push", image, env=logged_in).returncode == 0
    monkeypatch.setenv("DOCKER_CONFIG", logged_in["DOCKER_CONFIG"])
    with engine.connect() as client:
        with pytest.raises(ImageError) as caught:
            base_image.obtain(client, f"{registry}/team/train:2", progress=lambda _line: None)
        assert "tag does not exist" in (caught.value.hint or ""), caught.value.message
        monkeypatch.setenv("DOCKER_CONFIG", "/nowhere")
    with engine.connect() as client, pytest.raises(ImageError) as caught:
        base_image.obtain(client, f"{registry}/team/train:2", progress=lambda _line: None)
    assert "docker login" in (caught.value.hint or ""), caught.value.message
