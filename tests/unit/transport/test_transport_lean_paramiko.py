"""paramiko without invoke until an ssh_config has ``Match exec``: seen from a process of its own, as imports are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from clusterctl.inventory.model import Node
from clusterctl.transport.ssh import SshSession
from clusterctl.transport.sudo import SudoPassword
ssh = SshSession(accept_new_host_keys=False, connect_timeout_s=1.0, password=SudoPassword())
target = ssh.target(Node(name="n1", address="n1.example"))
print(target.port, "invoke" in sys.modules, "unittest.mock" in sys.modules)
"""


@pytest.mark.parametrize(
    ("config", "printed"),
    [
        ("Host n1.example\n  Port 2201\n", "2201 False False"),
        ('Match host n1.example exec "true"\n  Port 2202\n', "2202 True True"),
        ('match host n1.example exec "false"\n  Port 2203\nHost *\n  Port 2204\n', "2204 True True"),
    ],
)
def test_invoke_is_there_when_match_exec_asks_for_it(tmp_path: Path, config: str, printed: str) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == printed, done.stderr
