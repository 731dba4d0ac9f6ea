"""Start one torchrun per node from the launching node and keep their output separate by rank.

This file uses only the standard library, because nodes run it by path: ``python agents.py FILE``. FILE is JSON:

- ``node_names``; ``commands``: one argv per node; the first runs here, the others through ``remote`` and the name.
- ``env``: variables for all nodes with their values; ``forward``: variables copied by name from this process.
- ``mark``; ``kill_ranks``: sh text that kills the ranks of this launch on a node.

Each line is written as ``[mark,rank]<stdout>:`` or ``<stderr>:`` and the text. A line on stderr names the rank that
failed first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any

# GRACE_S: time between SIGTERM and SIGKILL for an agent (the sleep in its script). END_S: time for the script to then
# end the ranks.
GRACE_S = 5.0
END_S = 5.0
# The output of ranks and torchrun's report of them arrive on different streams; this pause lets both finish.
SETTLE_S = 1.0
PREFIX = "[%s,${rank}]<stdout>:"
_CAUSE = re.compile(r"Root Cause \(first observed failure\):(?P<text>.*?)(?:={10}|\Z)", re.DOTALL)
_RANK = re.compile(r"rank\s{0,40}: (?P<rank>\d{1,9})\b")
_CODE = re.compile(r"exitcode\s{0,40}: (?P<code>-?\d{1,9})\b")


def script(command: list[str], env: dict[str, str], kill_ranks: str) -> str:
    """Return sh text that runs a command while its standard input stays open, and then ends it and its ranks."""
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    # SSH does not forward signals: the remote side detects by closed input that this side has ended.
    return (
        f"{exports}exec 3<&0\n{shlex.join(command)} </dev/null 3<&- &\nagent=$!\n"
        "{ cat <&3 >/dev/null; kill -TERM $agent; sleep 5; kill -KILL $agent; } >/dev/null 2>&1 &\n"
        "guard=$!\nwait $agent\ncode=$?\nkill $guard 2>/dev/null\n"
        # A killed agent leaves its ranks running.
        f"[ $code -lt 128 ] || {{\n{kill_ranks}}} >/dev/null 2>&1\nexit $code\n"
    )


class NodeAgent:
    """Run one node's torchrun; ``said`` holds torchrun's own stderr, without the lines of its ranks."""

    def __init__(self, node: str, argv: list[str], text: str, mark: str, lock: threading.Lock) -> None:
        self.node = node
        self.said: list[bytes] = []
        self._tag = re.compile(rb"(\[" + re.escape(mark.encode()) + rb",\d+\])<stdout>:")
        self._lock = lock
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        assert self.process.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()
        self.threads = [
            threading.Thread(target=self._copy, args=(self.process.stdout, False), daemon=True),
            threading.Thread(target=self._copy, args=(self.process.stderr, True), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def _copy(self, stream: IO[bytes], errors: bool) -> None:
        for read in iter(stream.readline, b""):
            line = read
            if errors:
                line, tags = self._tag.subn(rb"\1<stderr>:", read)
                if not tags:
                    self.said.append(line)
            with self._lock:
                sys.stdout.buffer.write(line if line.endswith(b"\n") else line + b"\n")
                sys.stdout.buffer.flush()

    def let_go(self) -> None:
        """Close the agent's input, which makes it end."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def cause(self) -> tuple[int, int] | None:
        """Return the rank that failed first on this node and its exit code (negative: signal number), else None."""
        found = _CAUSE.search(b"".join(self.said).decode(errors="replace"))
        rank = _RANK.search(found["text"]) if found else None
        code = _CODE.search(rank.string, rank.end()) if rank else None
        return (int(rank["rank"]), int(code["code"])) if rank and code else None


def end(agents: list[NodeAgent]) -> None:
    """End all agents: close their inputs, and send SIGKILL after the grace time."""
    for agent in agents:
        agent.let_go()
    until = time.monotonic() + GRACE_S + END_S
    while time.monotonic() < until and any(agent.process.poll() is None for agent in agents):
        time.sleep(0.05)
    for agent in agents:
        if agent.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.process.pid, signal.SIGKILL)


def watch(agents: list[NodeAgent]) -> NodeAgent | None:
    """Wait until all agents succeed (return None) or one fails (return it)."""
    while True:
        codes = [agent.process.poll() for agent in agents]
        for agent, code in zip(agents, codes, strict=True):
            if code not in (None, 0):
                return agent
        if all(code == 0 for code in codes):
            return None
        time.sleep(0.05)


def blame(agents: list[NodeAgent], first: NodeAgent) -> str:
    """Return a line that names the rank that failed.

    A rank killed by a signal takes precedence: ranks that exit with a status usually did so because they lost a peer.
    """
    causes = [(agent, cause) for agent in agents if (cause := agent.cause()) is not None]
    if not causes:
        return f"agents: the agent on {first.node} ended with status {first.process.returncode}"
    agent, (rank, code) = min(causes, key=lambda found: (found[1][1] >= 0, found[0] is not first))
    fate = f"exited on signal {-code}" if code < 0 else f"exited with status {code}"
    return f"agents: rank {rank} on {agent.node} {fate}"


def main(argv: list[str]) -> int:
    """Run the agents of FILE and return 0, or the status of the first agent that failed."""
    wanted: dict[str, Any] = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    env = dict(wanted["env"])
    env |= {name: os.environ[name] for name in wanted["forward"] if name in os.environ}
    env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = PREFIX % wanted["mark"]
    lock = threading.Lock()
    agents: list[NodeAgent] = []

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    try:
        for index, (node, command) in enumerate(zip(wanted["node_names"], wanted["commands"], strict=True)):
            words = ["sh", "-s"] if index == 0 else [*wanted["remote"], node, "sh", "-s"]
            agents.append(
                NodeAgent(node, words, script(command, env, wanted["kill_ranks"]), wanted["mark"], lock)
            )
        failed = watch(agents)
        if failed is not None:
            time.sleep(SETTLE_S)
    finally:
        end(agents)
        for agent in agents:
            for thread in agent.threads:
                thread.join(timeout=SETTLE_S)
    if failed is None:
        return 0
    sys.stderr.write(blame(agents, failed) + "\n")
    return failed.process.returncode or 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
