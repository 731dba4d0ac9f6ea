"""Read clocks, power, temperatures and throttle reasons of a GPU from libnvidia-ml, and the clock of a CPU."""

from __future__ import annotations

import ctypes
import statistics
from pathlib import Path
from typing import Any, Protocol

LIBRARY = "libnvidia-ml.so.1"
NO_GPU = "the ranks use no GPU"
"""Why ranks on CPUs have no energy."""
# nvml.h: NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_FI_DEV_MEMORY_TEMP, NVML_VALUE_TYPE_UNSIGNED_INT.
_CLOCK_SM, _CLOCK_MEMORY, _TEMPERATURE_GPU, _MEMORY_TEMPERATURE, _UNSIGNED = 1, 2, 0, 82, 1
_INSUFFICIENT_SIZE = 7
_NO_ENERGY = {
    -1: "this driver's NVML has no energy counter",
    3: "this GPU has no energy counter",
    4: "no permission to read the energy counter",
}
"""Why there is no energy, by the code of ``_call`` (nvml.h: NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION)."""
# nvmlClocksEventReasons of nvml.h.
REASONS = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "hw-power-brake",
    0x100: "display-clocks",
}

Sample = dict[str, Any]
"""Values of one moment; a value that the device does not report is missing."""


class Sensors(Protocol):
    """What a device reports about itself."""

    def sample(self) -> Sample:
        """Return the values of this moment."""

    def constants(self) -> Sample:
        """Return limits and names that do not change."""


class _FieldValue(ctypes.Structure):
    """``nvmlFieldValue_t``; the value is a union of 8 bytes."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("value_type", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )


def reason_names(bits: int) -> list[str]:
    """Return the names of throttle reasons; an unknown bit is written as a number."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    other = bits & ~sum(REASONS)
    return [*known, hex(other)] if other else known


class NvidiaSensors:
    """One NVIDIA GPU, by its UUID. Raise OSError if the library or the GPU cannot be found."""

    def __init__(self, uuid: str, library: str = LIBRARY) -> None:
        self._nvml = ctypes.CDLL(library)
        self._handle = ctypes.c_void_p()
        code = self._nvml.nvmlInit_v2()
        if code == 0:
            code = self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._handle))
        if code != 0:
            raise OSError(f"{library} does not find the GPU {uuid} (error {code})")

    def _call(self, function: str, *arguments: Any) -> int:
        """Call a function for this GPU; return its error code, -1 if this version of the library lacks it."""
        found = getattr(self._nvml, function, None)
        return -1 if found is None else int(found(self._handle, *arguments))

    def _unsigned(self, function: str, *arguments: int) -> int | None:
        value = ctypes.c_uint()
        return value.value if self._call(function, *arguments, ctypes.byref(value)) == 0 else None

    def _reasons(self) -> list[str] | None:
        bits = ctypes.c_ulonglong()
        # The name of drivers before 535; later ones keep it.
        code = self._call("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(bits))
        return reason_names(bits.value) if code == 0 else None

    def _memory_temperature(self) -> int | None:
        wanted = _FieldValue(field=_MEMORY_TEMPERATURE)
        code = self._call("nvmlDeviceGetFieldValues", 1, ctypes.byref(wanted))
        if code != 0 or wanted.code != 0 or wanted.value_type != _UNSIGNED:
            return None
        # 0 is what GPUs without this sensor return.
        return (wanted.value & 0xFFFFFFFF) or None

    def processes(self) -> int | None:
        """Return the number of processes that compute on this GPU, this one included; None if not reported."""
        count = ctypes.c_uint(0)
        code = self._call("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), None)
        return count.value if code in (0, _INSUFFICIENT_SIZE) else None

    def energy_mj(self) -> int:
        """Return the energy since the driver was loaded, in millijoules; raise OSError with the reason for none."""
        value = ctypes.c_ulonglong()
        code = self._call("nvmlDeviceGetTotalEnergyConsumption", ctypes.byref(value))
        if code != 0:
            raise OSError(_NO_ENERGY.get(code, f"NVML did not return the energy counter (error {code})"))
        return value.value

    def sample(self) -> Sample:
        """Return clocks in MHz, power in W, temperatures in degrees Celsius, and throttle reasons."""
        power = self._unsigned("nvmlDeviceGetPowerUsage")
        return _without_none({
            "clock_mhz": self._unsigned("nvmlDeviceGetClockInfo", _CLOCK_SM),
            "memory_clock_mhz": self._unsigned("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            "power_w": None if power is None else power / 1e3,
            "temperature_c": self._unsigned("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
            "memory_temperature_c": self._memory_temperature(),
            "throttle": self._reasons(),
        })  # fmt: skip

    def constants(self) -> Sample:
        """Return the highest clock, the power limit, the best PCIe link of GPU and host, and the driver's version."""
        limit = self._unsigned("nvmlDeviceGetEnforcedPowerLimit")
        version = ctypes.create_string_buffer(96)
        code = self._nvml.nvmlSystemGetDriverVersion(version, len(version))
        return _without_none({
            "clock_max_mhz": self._unsigned("nvmlDeviceGetMaxClockInfo", _CLOCK_SM),
            "power_limit_w": None if limit is None else limit / 1e3,
            "pcie_generation": self._unsigned("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width": self._unsigned("nvmlDeviceGetMaxPcieLinkWidth"),
            "driver": version.value.decode(errors="replace") if code == 0 else None,
        })  # fmt: skip


class CpuSensors:
    """The cores of this machine."""

    def __init__(self, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
        self._cpuinfo = cpuinfo

    def sample(self) -> Sample:
        """Return the mean clock in MHz, where the kernel reports one."""
        try:
            lines = self._cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return {}
        words = [line.partition(":")[2].strip() for line in lines if line.startswith("cpu MHz")]
        clocks = [float(word) for word in words if word.replace(".", "", 1).isdigit()]
        return {"clock_mhz": round(statistics.fmean(clocks))} if clocks else {}

    def constants(self) -> Sample:
        """Return nothing: a CPU has no limits that torch could use."""
        return {}


def _without_none(values: Sample) -> Sample:
    return {name: value for name, value in values.items() if value is not None}
