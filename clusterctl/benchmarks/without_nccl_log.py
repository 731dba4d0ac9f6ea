"""Remove NCCL's log from the output of a benchmark."""

from __future__ import annotations

import re

# _HOST matches the prefix of a whole line. The second pattern matches a line inside other text and needs known host
# names: a name cannot be separated from the number before it if NCCL's line cut a row.
_HOST = re.compile(r"^(?:\[[^\]\n]*\] ?)*([^\s:<>\[\]]+):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?NCCL ", re.MULTILINE)
_ENTRY = (
    r"(?:\[\d{4}-\d\d-\d\d [^\[\]\n]{0,64}\] )?(?:%s):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?"
    r"NCCL (?:INFO|WARN) [^\n]*(?:\n|$)"
)


def without_log(text: str) -> str:
    """Return an output without NCCL's lines; lines that NCCL's lines had cut in two are joined again.

    NCCL connects at the first use of an algorithm, so rank 0 may log between the halves of a row.
    """
    hosts = sorted(set(_HOST.findall(text)), key=len, reverse=True) if " NCCL " in text else []
    return re.sub(_ENTRY % "|".join(map(re.escape, hosts)), "", text) if hosts else text
