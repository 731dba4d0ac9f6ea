"""What a run folder keeps of an inventory: all but the values of secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from valid_inventory import VALID

from clusterctl.artifacts.docker_run import docker_run_argv
from clusterctl.inventory import load
from clusterctl.inventory.model import ContainerSettings, Inventory, Node
from clusterctl.inventory.recorded import recorded
from clusterctl.text.secret.scrub import names_a_secret


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "wandb_api_key",
        "REGISTRY_AUTH",
        "SSHPASS",
        "GPG_PASSPHRASE",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "LIGHT_2D_ALLREDUCE",
        "KEYBOARD",
        "COMPASS",
        "NCCL_IB_PKEY",
        "SSH_AUTH_SOCK",
        "MAX_TOKENS",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not names_a_secret(name)


def test_a_recorded_inventory_hides_values_and_can_be_read_again() -> None:
    container = ContainerSettings(image="i", env={"WANDB_API_KEY": "planted-2", "B": "kept-2"})
    node = Node(name="a", address="a", env={"HF_TOKEN": "planted-1", "A": "kept-1"}, container=container)
    document = recorded(Inventory(nodes=(node,)))
    text = json.dumps(document)
    assert "planted" not in text and "kept-1" in text and "kept-2" in text
    assert Inventory.model_validate(document).nodes[0].env == {"HF_TOKEN": "***", "A": "kept-1"}
    assert node.env["HF_TOKEN"] == "planted-1"


def test_a_password_in_a_url_is_a_secret_under_any_name() -> None:
    assert names_a_secret("https_proxy", "http://me:planted@proxy:3128")
    assert names_a_secret("X", "https://:planted@h")
    assert not names_a_secret("https_proxy", "http://proxy:3128/a@b")
    node = Node(name="a", address="a", env={"https_proxy": "http://me:planted@proxy:3128"})
    assert "planted" not in json.dumps(recorded(Inventory(nodes=(node,), beyond=(node,))))


def test_a_docker_line_passes_secrets_on_by_name() -> None:
    argv = docker_run_argv(ContainerSettings(image="i", env={"HF_TOKEN": "planted", "A": "1"}))
    assert "HF_TOKEN" in argv and "A=1" in argv
    assert not any("planted" in word for word in argv)


def test_a_recorded_inventory_hides_secrets_in_commands_images_and_every_other_text() -> None:
    container = ContainerSettings(
        image="bob:planted-1@registry.example/team/image:1",
        command=(
            "serve",
            "--password",
            "planted-2",
            "--db",
            "host=h password=planted-3",
            "curl",
            "-u",
            "me:planted-4",
        ),
        env={"DSN": "host=h password=planted-5", "B": "kept"},
        volumes=("/data:/data",),
    )
    node = Node(name="a", address="a", env={"SAS": "https://x/y?sig=planted-6"}, container=container)
    document = recorded(Inventory(nodes=(node,), beyond=(node,)))
    text = json.dumps(document)
    assert "planted" not in text and "kept" in text
    again = Inventory.model_validate(document).nodes[0]
    assert again.container.image == f"{'*' * 13}@registry.example/team/image:1"
    assert again.container.command[:2] == ("serve", "--password") and again.container.volumes == (
        "/data:/data",
    )
    assert again.container.env == {"DSN": "***", "B": "kept"} and again.env == {"SAS": "***"}


def test_an_inventory_without_secrets_is_recorded_as_it_is() -> None:
    loaded = load.from_text(VALID, "valid.yaml", Path())
    assert recorded(loaded) == loaded.model_dump(mode="json")
