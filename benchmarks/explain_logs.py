"""CPU of ``explain`` per MB: logs whose lines differ in numbers, in words, or are known errors each; then a large log.

Run: python benchmarks/explain_logs.py [GB of the large log, default 3]
"""

from __future__ import annotations

import io
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan

ENTRIES = topic_files.load()
EXAMPLES = [example for entry in ENTRIES for example in entry.examples]
WORDS = sorted({word for text in (*EXAMPLES, *(entry.cause for entry in ENTRIES)) for word in text.split()})
DRAW = random.Random(1)
# The peak that getrusage reports includes the parent's memory at the fork; VmHWM does not.
_EXPLAIN = """
import re, sys, time
from pathlib import Path
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan
with open(sys.argv[1], "rb") as log:
    size = Scan(topic_files.load()).read("large", log)
peak = re.search("VmHWM:[^0-9]+([0-9]+)", Path("/proc/self/status").read_text())
print(f"{size / 1e9:.2f} GB: {time.process_time():.0f} s of CPU, peak memory {int(peak[1]) / 1000:.0f} MB")
"""


def number(digits: int) -> str:
    return f"{DRAW.randrange(10**digits):0{digits}}"


def word() -> str:
    return "".join(DRAW.choices(string.ascii_lowercase, k=DRAW.randrange(2, 10)))


def training() -> str:
    stamp = f"2026-11-29 12:{number(2)}:{number(2)},{number(3)}"
    return DRAW.choice((
        f"[rank{number(3)}]: {stamp} INFO train.py:412 step {number(6)} loss 0.{number(4)} grad_norm 1.{number(3)}",
        f"{stamp} gpu{number(2)}:{number(5)}:{number(5)} [3] NCCL INFO Channel {number(2)}/0 : 3[3] -> 4[4] via P2P",
        f"{stamp} [INFO] checkpoint saved to /data/run/ckpt-{number(6)}/rank-{number(3)}.pt in {number(2)} s",
    ))  # fmt: skip


def unlike() -> str:
    return f"{training()} id={DRAW.getrandbits(64):016x} shard={word()}"


LINES: dict[str, Callable[[], str]] = {
    "numbers differ": training,
    "words differ": unlike,
    "random words": lambda: " ".join(word() for _ in range(14)),
    "words of the catalogue": lambda: " ".join(DRAW.choices(WORDS, k=12)),
    "one known error": lambda: f"[rank{number(3)}]: CUDA error: out of memory {DRAW.getrandbits(64):016x}",
    "all known errors": lambda: f"{DRAW.choice(EXAMPLES)} {DRAW.getrandbits(64):016x}",
    "training, few errors": lambda: unlike() if DRAW.randrange(20_000) else DRAW.choice(EXAMPLES),
}


def log(line: Callable[[], str], size: int) -> bytes:
    text = io.BytesIO()
    while text.tell() < size:
        text.write(f"{line()}\n".encode())
    return text.getvalue()


def main() -> None:
    for name, line in LINES.items():
        text, spent = log(line, 6 << 20), []
        for _ in range(3):
            began = time.process_time()
            Scan(ENTRIES).read(name, io.BytesIO(text))
            spent.append((time.process_time() - began) * 1e9 / len(text))
        print(f"{name:24} {statistics.median(spent):6.1f} ms of CPU per MB", flush=True)
    size = float(sys.argv[1] if len(sys.argv) > 1 else 3) * 1e9
    block = log(LINES["training, few errors"], 48 << 20)
    with tempfile.NamedTemporaryFile() as large:
        while large.tell() < size:
            large.write(block)
        large.flush()
        subprocess.run([sys.executable, "-c", _EXPLAIN, large.name], check=True)


if __name__ == "__main__":
    main()
