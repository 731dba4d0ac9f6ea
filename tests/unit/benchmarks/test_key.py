"""The key of a result: every setting that moves a figure is in it, and nothing else is."""

import pytest

from clusterctl.benchmarks.key import (
    ABSENT,
    FIELDS,
    configuration_key,
    differences,
    hardware_name,
    library_version,
    mapping,
)

SETTINGS = {
    "program": "torch", "torch": "2.11.0", "precision": "amp-bf16", "channels_last": True, "batch_size": 64,
    "image_size": 224, "compile": False, "bucket_cap_mb": 25.0, "device": "cuda:0 NVIDIA H200", "threads": 8,
    "steps": 100,
}  # fmt: skip


def key(settings=SETTINGS, **changed):
    said = {
        "benchmark": "resnet50", "np": 4, "nodes": 1, "library": "nccl", "library_version": "2.28.9",
        "launcher": "local", "hardware": "NVIDIA H200", **changed,
    }  # fmt: skip
    return configuration_key(**said, settings=settings)


def test_all_fields_are_text_and_always_there():
    found = key()
    assert tuple(found) == FIELDS
    assert tuple(key({}, library=None, launcher=None)) == FIELDS
    assert {name: found[name] for name in ("np", "memory_format", "batch_per_rank", "compile", "bucket_cap_mb")} == {
        "np": "4", "memory_format": "channels_last", "batch_per_rank": "64", "compile": "no", "bucket_cap_mb": "25"
    }  # fmt: skip
    assert all(isinstance(value, str) for value in found.values())
    assert found["sequence_length"] == ABSENT


@pytest.mark.parametrize(
    ("setting", "value", "field"),
    [
        ("precision", "fp32", "precision"),
        ("channels_last", False, "memory_format"),
        ("batch_size", 128, "batch_per_rank"),
        ("image_size", 160, "image_size"),
        ("sequence_length", 512, "sequence_length"),
        ("compile", True, "compile"),
        ("bucket_cap_mb", 50.0, "bucket_cap_mb"),
        ("torch", "2.12.0", "torch"),
        ("environment", {"NCCL_NET_GDR_LEVEL": "0"}, "environment"),
    ],
)
def test_a_setting_that_moves_figures_makes_another_key(setting, value, field):
    assert list(differences(key(), key({**SETTINGS, setting: value}))) == [field]


def test_what_moves_no_figure_makes_no_other_key():
    assert differences(key(), key({**SETTINGS, "steps": 1000, "threads": 4})) == {}
    on_cpu = {**SETTINGS, "device": "cpu"}
    assert differences(key(on_cpu), key({**on_cpu, "threads": 4})) == {"threads": ("8", "4")}


@pytest.mark.parametrize("name", ["np", "nodes", "library", "library_version", "launcher", "hardware"])
def test_where_and_through_what_it_ran_is_in_the_key(name):
    assert list(differences(key(), key(**{name: "other"}))) == [name]


@pytest.mark.parametrize(
    ("devices", "cpus", "name"),
    [
        (["0 [0000:00:06] NVIDIA H200", "1 [0000:00:07] NVIDIA H200"], ["Xeon"], "NVIDIA H200"),
        (["cuda:0 NVIDIA H100 80GB HBM3"], [], "NVIDIA H100 80GB HBM3"),
        (["0 [cuda:0 NVIDIA H200]"], ["Xeon"], "NVIDIA H200"),
        (["0 [host memory] Intel Xeon 8488C"], [], "Intel Xeon 8488C"),
        (["cuda:0 NVIDIA A100", "cuda:0 NVIDIA H100"], [], "NVIDIA A100 + NVIDIA H100"),
        (["0 [cpu]"], ["Xeon"], "Xeon"),
        (["cpu", "cpu"], ["EPYC", "Xeon"], "EPYC + Xeon"),
        ([], [], None),
    ],
)
def test_hardware_is_named_without_its_place_in_the_node(devices, cpus, name):
    assert hardware_name(devices, cpus) == name


@pytest.mark.parametrize(
    ("library", "lines", "version"),
    [
        ("nccl", ["NCCL version 2.28.3+cuda13.0", "nccl-tests version 2.19.6 nccl-library=22803"], "2.28.3"),
        ("nccl", ["nccl 2.28.9 /site/libnccl.so.2"], "2.28.9"),
        ("nccl", ["Library nccl 2.28.9 /site/libnccl.so.2"], "2.28.9"),
        ("gloo", ["gloo torch 2.13.0+cpu /lib/libtorch_cpu.so"], "2.13.0+cpu"),
        ("ccore", ["collective_core version 0.1.0 (columns of nccl-tests)"], "0.1.0"),
        ("ccore", ["ccore 0.1.0 /lib/libcollective_core.so"], "0.1.0"),
        ("nccl", ["nccl 2.28.9 a", "nccl 2.27.3 b"], "2.27.3 + 2.28.9"),
        ("nccl", [], None),
        (None, ["nccl 2.28.9"], None),
    ],
)
def test_the_library_s_version_is_what_the_ranks_say(library, lines, version):
    assert library_version(library, lines) == version


@pytest.mark.parametrize(
    ("nodes", "how"),
    [("aabb", "slot"), ("abab", "node"), ("aabbb", "slot"), ("abb", "slot"), ("abba", "node"), ("aaaa", None),
     ("abc", None), ("", None)],
)  # fmt: skip
def test_how_ranks_are_placed_counts_where_there_is_more_than_one_way(nodes, how):
    assert mapping(list(nodes)) == how
    assert key(map_by=how)["map_by"] == (how or ABSENT)
