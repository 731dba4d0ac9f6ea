"""The script that clears ACS redirection at boot, run for real over a made-up bus and a stand-in for setpci."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest

from clusterctl.requirements.rdma.acs import REDIRECTS, REGISTER
from clusterctl.requirements.rendering import render

PORTS = ("0000:00:01.0", "0000:00:02.0")


@pytest.fixture
def bus(tmp_path):
    """A bus with two ports; registers are files, and every write is a line of ``writes``."""
    for address in PORTS:
        folder = tmp_path / "sys" / address
        folder.mkdir(parents=True)
        for name, text in (("vendor", "0x8086"), ("device", "0x352a"), ("class", "0x060400")):
            (folder / name).write_text(text + "\n")
        (tmp_path / address).write_text("001d")
    tool = tmp_path / "bin" / "setpci"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\n"
        f"file={tmp_path}/$2\n"
        "case $3 in\n"
        f'*=*) echo "$2 $3" >>{tmp_path}/writes; [ -e {tmp_path}/stuck ] || printf %s "${{3#*=}}" >"$file";;\n'
        '*) cat "$file" 2>/dev/null; echo;;\n'
        "esac\n"
    )
    tool.chmod(0o755)
    return tmp_path


def _run(bus):
    ports = [
        SimpleNamespace(address=address, vendor="8086", device="352a", class_code="060400")
        for address in PORTS
    ]
    text = render(
        "apply", "acs-redirect-off.sh", ports=ports, register=REGISTER, redirects=f"{REDIRECTS:04x}"
    )
    script = text.replace("/sys/bus/pci/devices", f"{bus}/sys").replace("PATH=$PATH", f"PATH={bus}/bin:$PATH")
    return subprocess.run(
        ("sh", "-c", script), env=dict(os.environ), capture_output=True, text=True, timeout=30, check=False
    )


def test_redirecting_ports_are_cleared_by_capability(bus):
    done = _run(bus)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(bus / address).read_text() for address in PORTS] == ["0000", "0000"]
    assert (bus / "writes").read_text() == "".join(f"{address} {REGISTER}=0000\n" for address in PORTS)


def test_a_port_that_only_validates_sources_is_not_written_to(bus):
    (bus / PORTS[0]).write_text("0001")
    (bus / PORTS[1]).write_text("0000")
    assert _run(bus).returncode == 0
    assert not (bus / "writes").exists()


def test_a_port_that_keeps_its_word_is_a_failure_with_its_name(bus):
    (bus / "stuck").touch()
    done = _run(bus)
    assert done.returncode == 1
    assert f"{PORTS[0]}: reads back 001d" in done.stderr


def test_another_device_at_the_address_is_left_alone(bus):
    (bus / "sys" / PORTS[1] / "device").write_text("0xa80a\n")
    done = _run(bus)
    assert done.returncode == 1
    assert f"{PORTS[1]}: left alone" in done.stderr
    assert (bus / PORTS[1]).read_text() == "001d"
    assert (bus / PORTS[0]).read_text() == "0000"
