"""Whether ib_core knows peer memory: asked of its type information before the kernel's whole list of symbols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest

OTHERS = "ffffffffc0a1b2c0 t ib_register_peer_memory\t[ib_core]\n"
LISTED = OTHERS + "ffffffffc0a1b2c0 T ib_register_peer_memory_client\t[ib_core]\n"
PLAIN, PEERS = b"\0ib_register_client\0ib_unregister_client\0", b"\0ib_register_peer_memory_client\0"


@pytest.mark.parametrize("file", ["ib_core", "vmlinux"])
@pytest.mark.parametrize(
    ("types", "symbols", "known"),
    [
        (PLAIN + PEERS, OTHERS, True),
        (PLAIN, LISTED, False),
        (b"\0nothing of it\0", LISTED, True),
        (b"\0nothing of it\0", OTHERS, False),
        (None, LISTED, True),
        (None, OTHERS, False),
    ],
    ids=[
        "types-say-yes",
        "types-say-no",
        "useless-types-yes",
        "useless-types-no",
        "symbols-yes",
        "symbols-no",
    ],
)
def test_the_types_are_asked_before_the_symbols(
    types: bytes | None,
    symbols: str,
    known: bool,
    file: str,
    shell: tuple[str, ...],
    probe_run: Callable[..., Any],
    namespaces: None,
    tmp_path: Path,
) -> None:
    sys, kallsyms = tmp_path / "sys", tmp_path / "kallsyms"
    fake_sysfs.build(sys)
    # Out of tree, so that no list of the kernel's own modules decides.
    (sys / "module/ib_core/taint").write_text("OE\n")
    if types is not None:
        (sys / "kernel/btf").mkdir(parents=True)
        (sys / "kernel/btf" / file).write_bytes(b"\x9f\xeb\x01\0" + types + b"\xff\n\xfe")
    if shell[0] == "busybox" and types is not None and b"client" in types:
        # Its grep is not believed to have found all names.
        symbols = LISTED if known else OTHERS
    kallsyms.write_text(symbols)
    argv = ("unshare", "-m", "sh", "-c", f'mount --bind {sys} /sys && exec "$@"', "sh", *shell)
    _, facts = probe_run(argv, replacing=[("/proc/kallsyms", str(kallsyms))])
    assert facts.gpudirect.peer_memory_api.value is known
