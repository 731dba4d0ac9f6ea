"""What a person sees at a terminal while a benchmark runs: its rows as they arrive, and where Ctrl-C stopped it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pexpect

# The first sizes take a moment, the last one takes minutes.
SWEEP = (
    *("-b", "8", "-e", "128M", "-f", "64", "-n", "2000"),
    *("--launcher", "local", "--library", "gloo", "-np", "2"),
)
SHOWN = (
    r"all_reduce \(2 ranks\): starting ranks, \d+ s of at most 10 min 00 s",
    r"all_reduce \(2 ranks\): [1-4] of 5 sizes, ",
    r" +8 +2 +float +sum +-1 +N/A +N/A +N/A +N/A +[\d.]+ +[\d.]+ +[\d.]+ ",
)


def started(clusterctl, tmp_path, python, *options):
    """Start ``bench`` at a terminal of 120 columns, for this machine as a node with this Python."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        f"version: 1\nnodes:\n  - {{name: here, address: localhost, connection: local, python: {python}}}\n"
    )
    return pexpect.spawn(
        str(clusterctl),
        ["bench", "-i", str(inventory), "--runs", str(tmp_path / "runs"), *options],
        # pytest-xdist sets COLUMNS to 80, below which the rows have fewer columns.
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "120"},
        dimensions=(24, 120),
        timeout=120,
        encoding="utf-8",
    )


def test_a_terminal_shows_the_reason_of_a_failure_once_and_a_log_has_it_too(clusterctl, tmp_path):
    options = ("--launcher", "local", "--library", "gloo", "-np", "2")
    child = started(clusterctl, tmp_path, "/missing/python3", *options)
    shown = child.read()
    child.close()
    assert child.exitstatus == 10
    assert shown.count("/missing/python3") == 1, shown
    # On a loaded machine a line of progress was there before, and is erased.
    assert re.search(r"(?:^|\x1b\[J)bad \(failed\): here: .*/missing/python3", shown, re.MULTILINE), shown
    inventory = str(tmp_path / "inventory.yaml")
    done = subprocess.run(
        [str(clusterctl), "bench", "-i", inventory, "--runs", str(tmp_path / "runs"), *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("bad (failed): here: ")
    assert re.search(r"^failed: [a-z-]+: here: .*/missing/python3", done.stderr, re.MULTILINE), done.stderr


def test_rows_arrive_while_the_ranks_run_and_an_interrupt_reports_how_far_it_came(clusterctl, tmp_path):
    child = started(clusterctl, tmp_path, sys.executable, *SWEEP)
    shown = ""
    while not all(re.search(wanted, shown) for wanted in SHOWN):  # a busy machine draws them in another order
        child.expect(r".+")
        shown += child.after
    child.sendintr()
    child.expect(
        r"Interrupted in all_reduce with 2 ranks: [1-4] of 5 sizes\r\nAll ranks were ended, and no result"
    )
    child.expect(r"The output so far is in\s+\S+logs\r\nTo measure again:\s+clusterctl bench -i ")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
