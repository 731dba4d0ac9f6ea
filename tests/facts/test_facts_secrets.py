"""Secrets that stand in what nodes tell of themselves reach no fact that is judged, written or printed."""

from __future__ import annotations

import json

import pytest

from clusterctl.facts.base import Section, Sections
from clusterctl.facts.subjects import limits, nfs, software, storage, system
from clusterctl.text import json_text
from clusterctl.text.secret.scrub import scrubbed_json

SECRET = "canarySecret"


@pytest.mark.parametrize(
    ("section", "line", "parse", "kept"),
    [
        (
            "system",
            f"/proc/cmdline:quiet inst.ks=http://me:{SECRET}@boot/ks rd.iscsi.password={SECRET} iommu=pt",
            lambda sections: system.parse(sections, None).cmdline.value,
            "iommu=pt",
        ),
        (
            "config",
            f"/etc/apt/sources.list:deb https://me:{SECRET}@x{SECRET}@repo/debian bookworm main",
            lambda sections: software.parse(sections).repositories,
            "@repo/debian",
        ),
        (
            "config",
            f"/etc/ssh/sshd_config:SetEnv LANG=C HF_TOKEN={SECRET}",
            lambda sections: limits.parse(sections).sshd,
            "LANG=C",
        ),
        (
            "system",
            f"/proc/cmdline:netroot=iscsi:me:{SECRET}@10.0.0.1::3260:0:iqn.2009-01.com.example:disk iommu=pt",
            lambda sections: system.parse(sections, None).cmdline.value,
            "iommu=pt",
        ),
        (
            "mounts",
            f"https://me:{SECRET}@dav/x /data fuse rw,password={SECRET},nosuid 0 0",
            lambda sections: storage.parse(sections).mounts.value,
            "nosuid",
        ),
        (
            "nfs",
            f"/etc/systemd/system/data.mount:Options=rw,username=me,password={SECRET}",
            lambda sections: nfs.parse(sections).mount_units,
            "username=me",
        ),
    ],
)
def test_a_login_in_what_a_node_tells_is_masked(section, line, parse, kept):
    found = parse(Sections({section: Section(section, f"{line}\n")}))
    assert found
    text = json_text.indented({"found": found}).decode()
    assert kept in text
    assert SECRET not in text


def test_why_a_section_failed_does_not_quote_a_login():
    section = Section("docker_files", f'"https-proxy": "http://me:{SECRET}@proxy"' + " more" * 200, 1)
    assert "proxy" in section.detail
    assert SECRET not in section.detail


@pytest.mark.parametrize(
    "text",
    [
        f'{{"proxies": {{"https-proxy": "http:\\/\\/me:{SECRET}@proxy"}}, "debug": true}}',
        f'{{"log-opts": {{"splunk-token": "\\u0061{SECRET}"}}, "debug": true}}',
        f'{{"https-proxy": "http://me:{SECRET}@proxy", "debug": true,}}',
    ],
)
def test_a_json_file_is_masked_whatever_its_escapes_and_mistakes(text):
    found = scrubbed_json(text)
    assert SECRET not in found
    assert '"debug": true' in found
    assert scrubbed_json(found) == found


def test_a_json_file_without_secrets_stays_as_it_is():
    text = json.dumps({"log-driver": "local", "no-proxy": "*.local", "dns": ["10.0.0.1"]})
    assert scrubbed_json(text) == text
