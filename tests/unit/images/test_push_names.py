"""Names of images, and what engines and registries refuse with."""

from __future__ import annotations

import pytest

from clusterctl.cli.main import main
from clusterctl.errors import ArtifactError, ImageError
from clusterctl.images.engine import hint
from clusterctl.images.push import split


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("train", ("train", "latest")),
        ("train:1", ("train", "1")),
        ("registry.example.com:5000/team/train", ("registry.example.com:5000/team/train", "latest")),
        ("registry.example.com:5000/team/train:2.1", ("registry.example.com:5000/team/train", "2.1")),
    ],
)
def test_a_name_is_repository_and_tag(image: str, parts: tuple[str, str]) -> None:
    assert split(image) == parts


def test_a_digest_is_not_pushed() -> None:
    with pytest.raises(ImageError, match="named by its digest"):
        split("train@sha256:" + "0" * 64)


# As dockerd 20.10 and 28, distribution 2.8 and Docker Hub say it.
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("write /var/lib/docker/tmp/x: no space left on device", "docker system prune"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "another architecture"),
        ("exec /bin/sh: exec format error", "another architecture"),
        ("manifest for debian:bokworm not found: manifest unknown: manifest unknown", "tag does not exist"),
        ("pull access denied for nothere, repository does not exist or may require 'docker login'", "login"),
        ("denied: requested access to the resource is denied", "docker login"),
        ("unauthorized: authentication required", "docker login"),
        ("http: server gave HTTP response to HTTPS client", "insecure-registries"),
        ("x509: certificate signed by unknown authority", "certs.d"),
        ("toomanyrequests: You have reached your pull rate limit", "anonymous"),
        ("dial tcp 10.0.0.9:5000: connect: connection refused", "the engine cannot reach the registry"),
    ],
)
def test_a_refusal_has_its_advice(said: str, advice: str) -> None:
    assert advice in (hint(said) or "")


def test_what_is_not_known_has_none() -> None:
    assert hint("something else") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nodes: [{name: a}]", "no image was given"),
        (
            "nodes: [{name: a, container: {image: x}}, {name: b, container: {image: y}}, {name: c}]",
            "different images: a: x; b: y; c: none",
        ),
    ],
)
def test_an_inventory_that_does_not_say_which_image(tmp_path, capsys, text: str, reason: str) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(f"version: 1\n{text}\n")
    assert main(["image", "push", "-i", str(path)]) == ArtifactError.exit_code
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:9"])
def test_without_an_engine_it_says_what_to_install(monkeypatch, capsys, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert main(["image", "push", "x"]) == ImageError.exit_code
    said = capsys.readouterr().err
    assert "no docker engine answers" in said and "apt-get install" in said
