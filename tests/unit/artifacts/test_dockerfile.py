"""What a Dockerfile is not written for: names that would end up as something else in it."""

from __future__ import annotations

import pytest

from clusterctl.artifacts.dockerfile import Recipe, family_of, render, require_reference
from clusterctl.errors import ArtifactError

DIGEST = "@sha256:" + "0" * 64


def text(**more):
    settings = {"base": "debian:bookworm", "family": "debian", "title": "t", "inside": "/opt/x", **more}
    return render(Recipe(**settings))


@pytest.mark.parametrize(
    "name",
    ["debian", "debian:bookworm", f"debian{DIGEST}", "nvcr.io/nvidia/pytorch:25.05-py3", "localhost:5000/a/b_c:1.0-X",
     "ccr.ccs.tencentyun.com/qcloud/taco-train:torch111-cu113-bm-0.4.1"],
)  # fmt: skip
def test_names_of_images_are_taken(name: str) -> None:
    require_reference(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " debian",
        "Debian",
        "debian:",
        "debian:a b",
        "debian\nRUN rm -rf /",
        "debian AS x",
        "-debian",
        "a@sha256:1",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="is not a valid image name"):
        text(base=name)


@pytest.mark.parametrize("name", ["a b.rpm", "a;reboot.rpm", "../a.rpm", "$(id).sh", "-e.sh"])
def test_file_names_that_a_shell_would_read_are_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="cannot be used in a Dockerfile"):
        text(installed=(name,))
    with pytest.raises(ArtifactError, match="cannot be used in a Dockerfile"):
        text(nccl_tests=name)


def test_labels_are_quoted_and_have_no_lines() -> None:
    assert 'LABEL a="x\\"\\$PATH\\\\"' in text(labels={"a": 'x"$PATH\\'})
    with pytest.raises(ArtifactError, match="control characters"):
        text(labels={"a": "x\nRUN reboot"})


@pytest.mark.parametrize(
    ("base", "family"),
    [
        ("debian:bookworm", "debian"),
        ("nvidia/cuda:12.8.1-devel-ubuntu24.04", "debian"),
        ("nvidia/cuda:12.8.1-devel-rockylinux9", "rhel"),
        ("nvidia/cuda:12.8.1-devel-ubi9", "rhel"),
        ("nvcr.io/nvidia/pytorch:25.05-py3", "debian"),
        ("registry.local/centos:7", "rhel"),
        ("almalinux:9", "rhel"),
        ("registry.local/train:1", None),
    ],
)
def test_a_bases_name_tells_its_family(base: str, family: str | None) -> None:
    assert family_of(base) == family
