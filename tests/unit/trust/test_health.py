"""What happened between two readings of a node's health: each counter, state and log line, and what cannot be known."""

from __future__ import annotations

from dataclasses import replace

import facts_recorded as recorded
import pytest

from clusterctl.documents.kinds import Effect
from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.health import (
    Boot,
    DeviceCount,
    GpuHealth,
    Health,
    KernelEvent,
    KernelLog,
    LinkErrors,
)
from clusterctl.facts.subjects import counters, gpu_health, health
from clusterctl.facts.vendors import health as table
from clusterctl.facts.xid import xid_of
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.trust.health import fleet, growth, unread


def _case(name: str) -> Health:
    return health.parse(recorded.load(recorded.CASES / "health" / f"{name}.txt"))


IDLE = _case("h200-x2")
DEVICES = _case("servers-devices")


def _later(found: Health = IDLE, **parts: object) -> Health:
    """The same node a minute later, with other values in these parts."""
    boot = found.boot.value
    assert boot is not None
    return replace(found, boot=Reading(Boot(boot.boot_id, boot.uptime_s + 60)), **parts)


def _gpu(**changes: object) -> Health:
    """The idle node a minute later, with changes of its first GPU; counters and states are merged."""
    assert IDLE.gpus.value is not None
    first, *others = IDLE.gpus.value
    for name in ("counts", "states"):
        if name in changes:
            changes[name] = tuple({**dict(getattr(first, name)), **changes[name]}.items())
    return _later(gpus=Reading((replace(first, **changes), *others)))


def _count(kind: str, place: str, name: str, value: int, found: Health = DEVICES) -> Health:
    kept = [c for c in found.counts.value or () if (c.kind, c.place, c.name) != (kind, place, name)]
    return _later(found, counts=Reading((*kept, DeviceCount(kind, place, name, value))))


def _log(*lines: tuple[float | None, str], last_s: float = 25200.0, first_s: float = 0.0) -> Health:
    events = tuple(KernelEvent(at, text) for at, text in lines)
    return _later(log=Reading(KernelLog(first_s, last_s, events)))


def _events(before: Health, after: Health) -> list[tuple[str, str, str, int | None]]:
    return [(e.place, e.name, e.effect.value, e.by) for e in growth(before, after)]


def test_nothing_happened() -> None:
    assert growth(IDLE, _later()) == ()
    assert unread(IDLE, _later()) == ()


def test_old_errors_are_not_blamed_on_the_run() -> None:
    """A card with a remapped row, old ECC errors, a full counter and an old Xid: not one of them grew."""
    for name in (
        "a100-remap-pending-and-hot",
        "kernel-log-with-xids",
        "older-ecc-counters-and-a-page-to-retire",
    ):
        old = _case(name)
        found = growth(old, _later(old))
        # Clocks that are low before and after were low during the run too.
        assert {event.name for event in found} <= {"hw_slowdown", "hw_thermal_slowdown"}, name
    assert growth(DEVICES, _later(DEVICES)) == ()


@pytest.mark.parametrize(
    ("counter", "by", "effect"),
    [
        ("ecc_uncorrected", 1, "grave"),
        ("ecc_corrected", 3, "doubtful"),
        ("rows_remapped_uncorrected", 1, "grave"),
        ("pcie_replays", 2, "doubtful"),
        ("slowed_us_hw_therm_slowdown", 30_000_000, "doubtful"),
        ("slowed_us_hw_therm_slowdown", 200, "note"),
        ("slowed_us_sw_power_cap", 59_000_000, "note"),
        ("slowed_us_hw_power_brake", 500_000, "doubtful"),
    ],
)
def test_a_counter_of_a_gpu_grew(counter: str, by: int, effect: str) -> None:
    assert _events(IDLE, _gpu(counts={counter: by})) == [("GPU 0", counter, effect, by)]


def test_the_time_at_low_clocks_is_compared_with_that_of_the_run() -> None:
    (event,) = growth(IDLE, _gpu(counts={"slowed_us_sw_therm_slowdown": 12_300_000}))
    assert event.what == "clocks lowered because of heat for 12.3 s of 60 s"


def test_errors_that_two_counters_hold_are_one_event() -> None:
    grown = _gpu(counts={"ecc_uncorrected": 2, "ecc_uncorrected_ever": 2})
    assert _events(IDLE, grown) == [("GPU 0", "ecc_uncorrected", "grave", 2)]
    # The GPU was reset: the counter since the driver's start fell, the other one still tells the growth.
    before = _gpu(counts={"ecc_corrected": 5, "ecc_corrected_ever": 7})
    after = _gpu(counts={"ecc_corrected": 0, "ecc_corrected_ever": 9})
    assert _events(before, after) == [("GPU 0", "ecc_corrected_ever", "doubtful", 2)]
    (reason,) = unread(before, after)
    assert (
        reason == "GPU 0 ecc_corrected fell from 5 to 0: it was reset or wrapped, and its growth is unknown"
    )


@pytest.mark.parametrize(
    ("state", "value", "effect"),
    [
        ("remap_pending", "Yes", "grave"),
        ("remap_failure", "Yes", "grave"),
        ("recovery_action", "Reset", "grave"),
    ],
)
def test_a_state_of_a_gpu_began(state: str, value: str, effect: str) -> None:
    assert _events(IDLE, _gpu(states={state: value})) == [("GPU 0", state, effect, None)]


def test_clocks_lowered_at_the_end() -> None:
    hot = _gpu(slowed_by=("hw_thermal_slowdown", "sw_power_cap"), temperature_c=91, memory_temperature_c=96)
    assert _events(IDLE, hot) == [
        ("GPU 0", "hw_thermal_slowdown", "doubtful", None),
        ("GPU 0", "temperature", "note", None),
    ]
    assert "GPU 91 C, memory 96 C" in growth(IDLE, hot)[1].what


def test_a_gpu_that_is_not_listed_any_more() -> None:
    assert IDLE.gpus.value is not None
    lost = _later(gpus=Reading(IDLE.gpus.value[1:]))
    assert _events(IDLE, lost) == [("GPU 0", "missing", "grave", None)]


@pytest.mark.parametrize(("name", "effect"), [("crc_errors", "doubtful"), ("recovery_errors", "grave")])
def test_an_nvlink_has_errors(name: str, effect: str) -> None:
    links = tuple(
        replace(e, value=4) if (e.link, e.name) == (1, name) else e for e in (IDLE.gpus.value or ())[0].links
    )
    assert _events(IDLE, _gpu(links=links)) == [("GPU 0 NVLink 1", name, effect, 4)]


@pytest.mark.parametrize(
    ("kind", "place", "name", "value", "event"),
    [
        ("ethernet", "ens3f0", "rx_errors", 9, ("ens3f0", "note", 2)),
        ("ethernet", "ens3f0", "rx_errors", 17, ("ens3f0", "doubtful", 10)),
        ("ethernet", "ens3f0", "carrier_changes", 7, ("ens3f0", "doubtful", 2)),
        ("rdma", "mlx5_0:1", "symbol_error", 6, ("mlx5_0:1", "note", 3)),
        ("rdma", "mlx5_0:1", "symbol_error", 99, ("mlx5_0:1", "doubtful", 96)),
        ("rdma", "mlx5_0:1", "packet_seq_err", 1, ("mlx5_0:1", "doubtful", 1)),
        ("memory", "mc0", "ue_count", 1, ("mc0", "grave", 1)),
        ("memory", "mc0", "ce_count", 5, ("mc0", "note", 1)),
        ("cpu", "CPU", "package_throttle_count", 41, ("CPU", "doubtful", 1)),
        ("host", "memory", "oom_kill", 2, ("memory", "doubtful", 1)),
        ("pcie", "0000:3b:00.0", "correctable: RxErr", 13, ("PCIe device 0000:3b:00.0", "doubtful", 1)),
        # The probe leaves out zeros of PCI devices.
        ("pcie", "0000:af:00.0", "fatal: DLP", 1, ("PCIe device 0000:af:00.0", "grave", 1)),
        ("pcie_other", "0000:05:00.0", "correctable: RxErr", 9, ("PCIe device 0000:05:00.0", "note", 4)),
    ],
)
def test_a_counter_of_a_device_grew(
    kind: str, place: str, name: str, value: int, event: tuple[str, str, int]
) -> None:
    (found,) = growth(DEVICES, _count(kind, place, name, value))
    assert (found.place, found.effect.value, found.by) == event
    assert found.meaning and found.source


def test_a_counter_without_an_earlier_value_is_not_an_event() -> None:
    """An interface that appeared, or a driver that prints a counter only now."""
    assert growth(DEVICES, _count("ethernet", "eth9", "rx_errors", 5)) == ()
    # Without AER before, the errors may be old.
    before = _later(DEVICES, counts=Reading(tuple(c for c in DEVICES.counts.value or () if c.kind != "pcie")))
    assert growth(before, _later(DEVICES)) == ()


def test_counters_that_wrapped_and_counters_at_their_end_are_told() -> None:
    fell = _count("rdma", "mlx5_0:1", "out_of_sequence", 3)
    assert growth(DEVICES, fell) == ()
    said = unread(DEVICES, fell)
    assert (
        "mlx5_0:1 link_downed is at its largest value (255), so that growth would not be visible: clear it"
        in said
    )
    assert any("out_of_sequence fell from 18446744073709551615 to 3" in reason for reason in said)


def test_lines_of_the_kernel_log() -> None:
    before = _log((100.0, "NVRM: Xid (PCI:0000:00:06): 79, pid=1, GPU has fallen off the bus."))
    after = _log(
        (100.0, "NVRM: Xid (PCI:0000:00:06): 79, pid=1, GPU has fallen off the bus."),
        (25201.0, "NVRM: Xid (PCI:0000:00:07): 94, pid=7, name=python3, Contained: CE User Channel"),
        (25202.0, "NVRM: Xid (PCI:0000:00:07): 94, pid=7, name=python3, Contained: CE User Channel"),
        (25203.0, "NVRM: Xid (PCI:0000:c2:00): 31, pid=8, name=python3, MMU Fault"),
        (25204.0, "NVRM: Xid (PCI:0000:00:06): 998, new"),
        (25205.0, "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
        (25206.0, "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 32 egress"),
        (25207.0, "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 8: be00000000800400"),
        (25207.5, "mce: [Hardware Error]: Machine check events logged"),
        (25207.6, "{1}[Hardware Error]: event severity: corrected"),
        (25207.7, "{1}[Hardware Error]: It has been corrected by h/w and requires no further action"),
        (25208.0, "NETDEV WATCHDOG: ens3f0 (mlx5_core): transmit queue 3 timed out"),
    )
    assert _events(before, after) == [
        ("GPU 1", "xid_94", "grave", 2),
        ("NVSwitch 3", "sxid_20034", "grave", 1),
        ("kernel log", "line", "grave", 1),
        ("kernel log", "line", "grave", 1),
        ("GPU at 0000:c2:00", "xid_31", "doubtful", 1),
        ("GPU 0", "xid_998", "doubtful", 1),
        ("NVSwitch 3", "sxid_12028", "doubtful", 1),
        ("kernel log", "line", "note", 3),
    ]
    assert growth(before, after)[0].what == "Xid 94: memory error of the GPU (2 times)"


def test_an_xid_that_the_driver_calls_nonfatal_is_not_grave() -> None:
    said = "NVRM: Xid (PCI:0000:00:06): 149, NETIR_LINK_EVT {} XC0 i0 Link 05 (0x004505c6 0x00000000)"
    before = (0.5, "eth0: link up")
    found = growth(
        _log(before), _log(before, (25201.0, said.format("Nonfatal")), (25202.0, said.format("Fatal")))
    )
    assert [(event.effect.value, event.what.partition(":")[0], bool(event.meaning)) for event in found] == [
        ("grave", "Xid 149", True),
        ("doubtful", "Xid 149 (not fatal)", False),
    ]


@pytest.mark.parametrize(
    ("said", "is_nonfatal"),
    [
        # The driver fills the name of the unit and the severity up with blanks.
        ("145, RLW_RXPIPE      Nonfatal XC0 i0 Link 03 (0x0409a0c2 0x00000008 0x00000001)", True),
        ("149, NETIR_LINK_EVT  Fatal    XC0 i0 Link 01 (0x021425c6 0x00000000)", False),
        ("145, pid=7, name=python3, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000040)", True),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 02", True),
        # Promoted: NVIDIA's catalogue asks for a reset of the GPU, before driver 575 and from it on.
        ("145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x000004c2 0x00000001 0x00000000)", False),
        ("145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000086 0x00000004 0x00000000)", False),
        ("145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000006 0x00000004 0x00000000)", True),
        # Only Xids of NVLinks have a severity; a program chooses its name.
        ("79, pid=1, name=X Nonfatal, GPU has fallen off the bus.", False),
        ("145, pid=1, name=X Nonfatal, RLW_REMAP Fatal XC0 i0 Link 02", False),
    ],
)
def test_the_severity_of_an_nvlinks_xid(said: str, is_nonfatal: bool) -> None:
    xid = xid_of(f"NVRM: Xid (PCI:0000:00:06): {said}")
    assert xid is not None and xid.is_nonfatal is is_nonfatal


def test_a_line_in_the_last_moment_before_the_run_is_old_and_the_same_line_again_is_new() -> None:
    line = "NVRM: Xid (PCI:0000:00:06): 31, pid=1, MMU Fault"
    before = _log((25163.0, line), last_s=25163.0)
    assert growth(before, _log((25163.0, line))) == ()
    assert [event.by for event in growth(before, _log((25163.0, line), (25163.0, line)))] == [1]
    # Older lines were not among the newest ones of the first reading: they are not new.
    assert growth(before, _log((9.0, line), (25163.0, line))) == ()


def test_a_log_without_times_and_a_log_that_was_empty() -> None:
    old = _case("kernel-log-without-times")
    assert growth(old, _later(old)) == ()
    cleared = _case("kernel-log-was-cleared")
    new = replace(cleared, log=_log((25201.0, "NVRM: Xid (PCI:0000:00:06): 48, DBE")).log)
    assert [event.name for event in growth(cleared, new)] == ["xid_48"]


def test_what_was_not_read_is_told_and_no_event() -> None:
    denied: Reading[KernelLog] = Reading(None, ReadStatus.DENIED, "not root, and sudo is not installed")
    assert unread(_later(log=denied), _later(log=denied)) == (
        "kernel log not read before the run: not root, and sudo is not installed",
    )
    hung = _case("nvidia-smi-hangs")
    assert growth(IDLE, replace(hung, log=IDLE.log)) == ()
    said = unread(IDLE, _later(replace(IDLE, gpus=hung.gpus, nvlinks=hung.nvlinks)))
    assert (
        said[0]
        == "health of the GPUs not read after the run: nvidia-smi did not answer completely within 15 s"
    )
    # Without nvidia-smi there is nothing to read, unless it was there before.
    bare = _case("servers-devices")
    assert unread(bare, _later(replace(bare, counts=Reading(())))) == ()
    assert unread(IDLE, _later(replace(IDLE, gpus=bare.gpus)))


def test_a_log_that_was_cut_off() -> None:
    before = _log(last_s=25200.0)
    (reason,) = unread(before, _log(first_s=25260.0, last_s=25300.0))
    assert reason.startswith(
        "kernel log: the lines from 25200 s to 25260 s after boot were overwritten or cleared"
    )
    assert unread(before, _log(first_s=25100.0, last_s=25300.0)) == ()


def test_a_node_that_rebooted_is_one_event() -> None:
    assert IDLE.boot.value is not None
    again = replace(_gpu(counts={"pcie_replays": 9}), boot=Reading(Boot("00000000-0000", 30.0)))
    assert _events(IDLE, again) == [("node", "rebooted", "grave", None)]
    assert unread(IDLE, again) == ()


def test_the_fleet_names_nodes_and_says_what_is_missing() -> None:
    lost = Failure(FailureKind.TIMEOUT, "no answer within 20 s")
    before: HostMap[Health] = HostMap({"a": IDLE, "b": IDLE, "c": lost, "d": IDLE})
    after: HostMap[Health] = HostMap(
        {"a": _later(), "b": _gpu(counts={"pcie_replays": 2}), "c": IDLE, "d": lost}
    )
    found = fleet(before, after)
    assert found.is_doubtful
    part = found.part()
    assert [(event.node, event.place, event.by) for event in part.events] == [("b", "GPU 0", 2)]
    assert [(one.node, one.reason) for one in part.unread] == [
        (name, "error counters were not read: no answer within 20 s") for name in ("c", "d")
    ]
    notes = fleet(HostMap({"a": IDLE}), HostMap({"a": _gpu(counts={"slowed_us_sw_power_cap": 9_000_000})}))
    assert notes.events and not notes.is_doubtful


def test_every_counter_that_the_probe_reads_has_a_meaning() -> None:
    known = table.counters()
    for name in (*counters.ETHERNET, "carrier_changes"):
        assert ("ethernet", name) in known
    for name in (*counters.RDMA, *counters.RDMA_HW):
        assert ("rdma", name) in known
    for name in ("rx_pause", "tx_pause", "rx_discards", "tx_discards", "pause_storm"):
        assert ("roce", name) in known
    for event in health.EVENTS[2:]:
        assert table.log_row(event.replace("[0-9]*", "1").replace("[CU]", "U")), event
    read = {name for gpu in IDLE.gpus.value or () for name, _ in gpu.counts} - {"slowed_us_sync_boost"}
    assert {("gpu", name) for name in read} <= known.keys()
    assert {row.effect for row in known.values()} == set(Effect)


def test_fec_corrections_of_an_nvlink_are_not_errors() -> None:
    text = (
        '<nvidia_smi_log>\n\t<gpu id="00000000:00:06.0">\n\t\t<uuid>GPU-1</uuid>\n\t</gpu>\n</nvidia_smi_log>\n@links\n'
        "GPU 0: NVIDIA B200 (UUID: GPU-1)\n\t Link 0: FEC Errors - 0: 8123\n\t Link 0: Rcv Errors: 2\n"
    )
    (gpu,) = gpu_health.parse_gpus(text)
    assert isinstance(gpu, GpuHealth)
    assert gpu.links == (LinkErrors(0, "rcv_errors", 2),)


def test_what_nvidia_smi_may_not_read_is_no_event_and_what_a_gpu_has_not_is_left_out() -> None:
    def gpu(failure: str, ecc: str) -> GpuHealth:
        (found,) = gpu_health.parse_gpus(
            '<nvidia_smi_log>\n\t<gpu id="00000000:00:06.0">\n\t\t<uuid>GPU-1</uuid>\n\t\t<ecc_errors>\n'
            f"\t\t\t<volatile>\n\t\t\t\t<sram_uncorrectable>{ecc}</sram_uncorrectable>\n\t\t\t</volatile>\n"
            f"\t\t</ecc_errors>\n\t\t<remapped_row_failure>{failure}</remapped_row_failure>\n\t</gpu>\n"
            "</nvidia_smi_log>\n"
        )
        return found

    denied = "Insufficient Permissions"
    hidden = gpu(denied, denied)
    assert dict(hidden.states) == {"remap_failure": denied, "ecc_uncorrected": denied}
    assert gpu("Not Supported", "N/A").states == () == gpu("Not Supported", "N/A").counts
    before, after = (Health(gpus=Reading((one,))) for one in (gpu("No", "0"), hidden))
    assert growth(before, after) == ()
