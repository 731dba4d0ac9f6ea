"""paramiko without invoke, ``Match exec`` included: seen from a process of its own, as imports are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterctl.transport.ssh import config as ssh_config

PROGRAM = """
import sys
from clusterctl.inventory.model import Node
from clusterctl.transport.ssh import config
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.sudo import SudoPassword
config.EXEC_TIMEOUT_S = float(sys.argv[1])
ssh = SshSession(accept_new_host_keys=False, connect_timeout_s=1.0, password=SudoPassword())
for name in ("n1.example", "n2.example"):
    target = ssh.target(Node(name=name, address=name))
print(target.port, "invoke" in sys.modules, "unittest.mock" in sys.modules, sys.stdin.read())
"""


def printed(home: Path, config: str, exec_timeout_s: float = ssh_config.EXEC_TIMEOUT_S) -> tuple[str, str]:
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(exec_timeout_s)], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        input="mine", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("config", "port"),
    [
        ("Host n2.example\n  Port 2201\n", 2201),
        ('Match host n2.example exec "true"\n  Port 2202\n', 2202),
        ('match host n2.example exec "false"\n  Port 2203\nHost *\n  Port 2204\n', 2204),
        ('Match exec "grep -q . || exit 0; exit 1"\n  Port 2205\n', 2205),
    ],
)
def test_invoke_is_never_needed_and_match_exec_reads_no_input_of_ours(
    tmp_path: Path, config: str, port: int
) -> None:
    said, problems = printed(tmp_path, config)
    assert said == f"{port} False False mine", problems


def test_a_match_exec_that_hangs_counts_as_failed_and_runs_once_for_all_hosts(tmp_path: Path) -> None:
    config = f'Match exec "echo >>{tmp_path}/asked; exec sleep 300"\n  Port 2201\nHost *\n  Port 2202\n'
    said, problems = printed(tmp_path, config, 2.0)
    assert said.startswith("2202 ") and problems.count("Match exec") == 1
    assert (tmp_path / "asked").read_text() == "\n"
