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
