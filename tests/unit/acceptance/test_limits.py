"""Thresholds are data: every shipped one has a source, and a site's file is rejected with the line of its mistake."""

from __future__ import annotations

import pytest

from clusterctl.acceptance import limits
from clusterctl.acceptance.catalog import ROWS
from clusterctl.acceptance.rules import BadRuleError, read_rule
from clusterctl.errors import ConfigError


def test_every_shipped_threshold_has_a_source_and_a_row():
    names = {row.name for row in ROWS}
    files = limits.shipped()
    assert files
    for file in files:
        for rule in file.rules:
            assert len(rule.source) > 10, rule
            assert read_rule(rule.when).row in names, rule
        for one in file.comparisons:
            assert len(one.source) > 10, one
            assert {pattern.partition(".")[0] for pattern in one.fields} <= {*names, "*"}, one


@pytest.mark.parametrize(
    ("name", "gemm", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB", 244, 1631), ("NVIDIA A100-SXM4-40GB", 244, 1244),
        ("NVIDIA A100 80GB PCIe", 228, 1548), ("NVIDIA A100-PCIE-40GB", None, 1244),
        ("NVIDIA A800-SXM4-80GB", 244, 1631), ("NVIDIA A800 80GB PCIe", 228, 1548),
        ("NVIDIA H20", None, 3200), ("NVIDIA H100 80GB HBM3", 715, 2680), ("NVIDIA H100 PCIe", None, 1600),
        ("NVIDIA H100 NVL", None, 3120), ("NVIDIA H200", 715, 3870), ("NVIDIA H200 NVL", None, None),
        ("NVIDIA L40S", None, 518), ("NVIDIA B200", 1570, 6400), ("NVIDIA B300 SXM6 AC", 1592, 6400),
        ("NVIDIA GB200", 1640, 6400), ("NVIDIA GB300", None, None), ("Tesla V100-SXM2-32GB", None, None),
    ],
)  # fmt: skip
def test_each_gpu_has_the_bounds_of_its_own_model(name, gemm, memory):
    """What has no bound of its own is compared with the fleet; names as nvidia-smi prints them."""

    def bound(row, field):
        found = {one.rule.bound(None) for one in limits.limits().rules(row, field, name)}
        assert len(found) <= 1
        return next(iter(found), None)

    assert (bound("gpu-gemm", "bf16_tflops"), bound("gpu-memory", "copy_gb_per_s")) == (gemm, memory)
    assert len([file for file in limits.shipped() if file.hardware and limits.is_for(file, name)]) == (
        (gemm is not None or memory is not None) + ("V100" not in name)
    )
    assert limits.limits().comparison("gpu-gemm", "bf16_tflops", name).compare


@pytest.mark.parametrize("speed", [100, 200, 400, 800])
def test_ports_of_each_speed_have_a_bound_below_their_line_rate(speed):
    rules = limits.limits().rules("rdma-bandwidth", "write_gbit_per_s", f"RDMA {speed} Gb/s")
    assert rules and all(0.9 * speed <= one.rule.bound(None) < speed for one in rules)


def test_a_threshold_without_a_source_is_refused():
    with pytest.raises(ValueError, match="source"):
        limits.ThresholdFile.model_validate({"rules": [{"when": "disk.read_mbps < 1", "verdict": "fail"}]})


@pytest.mark.parametrize(
    "text",
    [
        "disk.read_mbps < 95",
        "gpu-gemm.bf16_tflops <= 0.95 * fleet_median",
        "a.b != -1.5e3",
        "a.b>fleet_median",
    ],
)
def test_rules_keep_their_meaning(text):
    rule = read_rule(text)
    assert read_rule(rule.text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "", "disk < 1", "disk.read_mbps << 1", "disk.read_mbps < __import__('os')", "disk.x < 1 or 1",
        "disk.read_mbps < 1e999", "disk.x < fleet_mean", "a.b < 2 * 3", "x" * 300,
    ],
)  # fmt: skip
def test_other_texts_are_no_rules(text):
    with pytest.raises(BadRuleError, match="is not a rule; expected"):
        read_rule(text)


def site(tmp_path, text):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return path


def test_a_site_file_gets_its_own_name_as_the_source(tmp_path):
    path = site(tmp_path, "rules:\n  - when: disk.read_mbps < 900\n    verdict: warn\n")
    (found,) = limits.limits(path).rules("disk", "read_mbps", "")
    assert found.source == "site.yaml of this site"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules:\n  - when: disk.read_mbps < 900\n    verdict: bad\n", "line 3: rules.0.verdict"),
        (
            "rules:\n  - when: disk.read < \n    verdict: warn\n",
            "line 2: rules.0.when: 'disk.read <' is not a rule",
        ),
        ("limits: []\n", "line 1: limits: unknown key"),
        ("comparisons:\n  - fields: ['*.*']\n    warn: 8\n    source: us\n", "line 3: comparisons.0.warn"),
    ],
)
def test_a_mistake_in_a_site_file_is_named_with_its_line(tmp_path, text, said):
    with pytest.raises(ConfigError) as caught:
        limits.limits(site(tmp_path, text))
    assert said in caught.value.message
    assert "accept.md" in str(caught.value.hint)
