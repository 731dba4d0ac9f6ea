"""Which accounts can map memory of a GPU by its IPC handle: none without the handle, any with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).parent / "programs" / "cuda_ipc_accounts.py"
STRANGER = 65534


@pytest.mark.parametrize("account", [os.geteuid(), STRANGER], ids=["same", "other"])
def test_a_handle_is_all_that_a_process_needs(account: int) -> None:
    """The driver does not ask for the account, as docs/threat-model.md says: the handle must stay secret."""
    if account != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can become another account")
    done = subprocess.run(
        (sys.executable, str(PROGRAM), str(account)), capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [f"uid {account}: read 42", "left 7"]
