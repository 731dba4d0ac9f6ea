"""Health: the present boot, the health of the GPUs, and the faults in the kernel log."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Section, Sections, Unparsable, failed
from clusterctl.facts.model.health import Boot, Health, KernelEvent, KernelLog
from clusterctl.facts.subjects import counters, gpu_health
from clusterctl.text.foreign import decimal, lines

_MOST_EVENTS = 400
EVENTS = (
    *(
        "NVRM: Xid",
        "SXid",
        "Hardware Error",
        "EDAC MC[0-9]*: [0-9]* [CU]E ",
        "PCIe Bus Error",
        "ut of memory: Killed",
    ),
    *("oom-kill:", "NETDEV WATCHDOG", "soft lockup", "blocked for more than"),
)
"""Basic regular expressions of the lines of the kernel log that report a fault."""

_LOG = "\n".join(
    [
        "k='dmesg | { IFS= read -r f; printf \"%s\\n@faults\\n\" \"$f\"; sed -n"
        + "".join(f' -e "/{event}/{{p;d}}"' for event in EVENTS)
        + f' -e "\\$p" | tail -n {_MOST_EVENTS + 1}; }}' + "'",
        "x=1; { read -r x </proc/sys/kernel/dmesg_restrict; } 2>/dev/null",
        'if [ "$x" = 0 ]; then eval "$k"; else r "$k"; fi',
    ]
)  # fmt: skip


def _log_if(name: str, condition: str) -> Fragment:
    """Return the fragment that searches the kernel log, which takes a third of the time of all other facts.

    Requirements judge the log of nodes with GPUs only.
    """
    return Fragment(
        name,
        _LOG,
        needs=f"{condition} && command -v dmesg >/dev/null 2>&1",
        missing="dmesg is not installed, or the NVIDIA driver is not loaded",
        limit_bytes=512 * 1024,
        root=True,
    )


FRAGMENTS = (
    Fragment(
        "boot",
        "b=; u=; { read -r b </proc/sys/kernel/random/boot_id; read -r u x </proc/uptime; } 2>/dev/null\n"
        'echo "$b $u"',
    ),
    gpu_health.FRAGMENT,
    _log_if("kernel_log", "[ -e /proc/driver/nvidia ]"),
)
COUNTER_FRAGMENTS = (_log_if("kernel_log_without_gpu", "[ ! -e /proc/driver/nvidia ]"), *counters.FRAGMENTS)

_EVENT_TIME = re.compile(r"\[\s{0,12}(\d{1,12}\.\d{1,9})\] ?(.{0,2000})")
_TEXT_CHARACTERS = 300


def parse_boot(text: str) -> Boot:
    """Parse the boot's identifier and the uptime in seconds."""
    words = text.split()
    if len(words) != 2 or not re.fullmatch(r"[0-9a-f-]{8,64}", words[0]):
        raise Unparsable(f"not a boot identifier and an uptime: {text[:80]!r}")
    return Boot(words[0], decimal(words[1]))


def parse_log(text: str) -> KernelLog:
    """Parse the first line of the kernel log, ``@faults``, the lines that report faults, and the last line."""
    first, marker, rest = text.partition("@faults\n")
    if not marker:
        raise Unparsable(f"not a kernel log: {text[:80]!r}")
    shown = [_event(line) for text in (first, rest) for line in lines(text) if line.strip()]
    wanted = re.compile("|".join(EVENTS))
    return KernelLog(
        first_s=shown[0].at_s if shown else None,
        last_s=shown[-1].at_s if shown else None,
        events=tuple(event for event in shown if wanted.search(event.text)),
        is_cut=len(shown) > _MOST_EVENTS + 1,
    )


def _event(line: str) -> KernelEvent:
    match = _EVENT_TIME.match(line)
    if match is None:
        return KernelEvent(None, line.strip()[:_TEXT_CHARACTERS])
    return KernelEvent(float(match[1]), match[2].strip()[:_TEXT_CHARACTERS])


def _log(section: Section) -> Reading[KernelLog]:
    # The pipe hides the exit status of dmesg, which prints at least one line unless it fails or the log was cleared.
    if section.status is ReadStatus.OK and not section.text.replace("@faults", "").strip() and section.error:
        return failed(f"dmesg: {section.error[:200]}")
    return section.read(parse_log)


def parse(sections: Sections) -> Health:
    """Return the health of the node, with the counters if their subject was probed."""
    gpus, links = gpu_health.read(sections["gpu_health"])
    log = sections["kernel_log"]
    return Health(
        boot=sections["boot"].read(parse_boot),
        gpus=gpus,
        nvlinks=links,
        log=_log(sections["kernel_log_without_gpu"] if log.status is ReadStatus.ABSENT else log),
        counts=sections["counters"].read(counters.parse_counts),
    )
