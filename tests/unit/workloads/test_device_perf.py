"""``device_perf`` as nodes run it, from the archive, on this machine's CPU; and its parts that need no device."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
import warm_python

from clusterctl.benchmarks.energy import GpuEnergy, of_report
from clusterctl.workloads import energy, records
from clusterctl.workloads.archive import build
from clusterctl.workloads.device import copies, gemm, one_device, pattern, perf, sensors, sustained, twice
from clusterctl.workloads.device.timing import CPU_EFFORT

CPU = torch.device("cpu")
SHORT = ("--device", "cpu", "--types", "fp32", "--sdc-s", "0", "--sustained-s", "0.2")
NVML = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned field, scope; long long at, latency; unsigned type, code; unsigned long long value; } Field;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **h) { *h = (void *)7; return strcmp(uuid, "GPU-a") ? 6 : 0; }
int nvmlDeviceGetClockInfo(void *h, int type, unsigned *v) { *v = type == 1 ? 1755 : 3201; return h != (void *)7; }
int nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *v) { (void)h; *v = 1980; return type == 1 ? 0 : 2; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *v) { (void)h; *v = 698500; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *v) { (void)h; *v = 700000; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *v) { (void)h; *v = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *v) { (void)h; *v = 16; return 0; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *v) { (void)h; (void)v; return sensor == 0 ? 3 : 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *v) { (void)h; *v = 0x1044; return 0; }
int nvmlDeviceGetFieldValues(void *h, int n, Field *f) {
    (void)h;
    f->type = 1; f->code = 0; f->value = n == 1 && f->field == 82 ? 77 : 0;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *p) { (void)h; (void)p; *n = 2; return 7; }
/* NVML_ENERGY: the counter in mJ, or "error" and the code to return. */
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *v) {
    const char *told = getenv("NVML_ENERGY");
    (void)h;
    *v = strtoull(told, NULL, 10);
    return strncmp(told, "error", 5) ? 0 : atoi(told + 5);
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.86", length); return 0; }
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("workloads") / "workloads.pyz"
    path.write_bytes(build())
    return path


def start(archive, *words):
    return warm_python.start(
        [sys.executable, str(archive), "device_perf", *words],
        {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}, cwd=archive.parent,
    )  # fmt: skip


def parsed(lines):
    return [json.loads(line.removeprefix(records.MARK)) for line in lines if line.startswith(records.MARK)]


def test_every_row_of_every_device_ends_and_equal_devices_compute_the_same_bits(archive):
    process = start(archive, *SHORT, "--gpus", "0,1")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found = parsed(out.splitlines())
    ended = {(record["gpu"], record["row"]) for record in found if record["kind"] == "device-row-end"}
    rows = ("gemm", "hbm", "host-link", "pattern", "sdc", "training", "sustained")
    assert ended == {(gpu, row) for gpu in (0, 1) for row in rows} | {
        (None, "nvlink"),
        (0, "overlap"),
        (1, "overlap"),
    }
    measured = [record for record in found if record["kind"] == "device-measured"]
    assert all(
        record["value"] > 0 for record in measured if record["row"] not in ("sdc", "overlap", "pattern")
    )
    assert {record["name"] for record in measured if record["row"] == "nvlink"} == {"0-1", "1-0"}
    twice_computed = [record for record in measured if record["row"] == "sdc"]
    assert all(record["value"] == 0 and record["detail"]["runs"] >= 2 for record in twice_computed)
    hashes = {
        (record["name"], record["detail"]["sha256"]) for record in measured if "sha256" in record["detail"]
    }
    assert sorted(name for name, _ in hashes) == [
        "attention",
        "bert-loss",
        "convolution",
        "gemm",
        "llama-loss",
    ]
    hidden = [record["value"] for record in measured if record["row"] == "overlap"]
    assert len(hidden) == 2 and all(0 <= value <= 1 for value in hidden)
    assert any(record["kind"] == "device-sample" for record in found)
    assert (found[0]["kind"], found[-1]["kind"], found[-1]["complete"]) == (
        "device-start",
        "device-end",
        True,
    )


def test_a_killed_process_fails_its_own_device_with_the_row_and_the_signal(archive):
    process = start(archive, *SHORT, "--rows", "hbm,sustained,gemm", "--sustained-s", "2", "--gpus", "0,1")
    seen, pid = [], None
    for line in process.stdout:
        seen.append(line)
        record = parsed([line])[0]
        if record["kind"] == "device" and record["gpu"] == 1:
            pid = record["pid"]
        if record["kind"] == "device-row" and record["gpu"] == 1 and record["row"] == "sustained":
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    failures = [record for record in parsed(seen) if record["kind"] == "device-failure"]
    assert process.returncode == 1
    assert [(one["gpu"], one["row"], one["reason"]) for one in failures] == [
        (1, "sustained", "the process was ended by signal 9, possibly for memory")
    ]
    ended = {
        record["row"] for record in parsed(seen) if record["kind"] == "device-row-end" and record["gpu"] == 0
    }
    assert ended == {"gemm", "hbm", "sustained"}


def test_a_row_that_does_not_end_fails_at_the_deadline(archive):
    process = start(archive, *SHORT, "--rows", "sustained", "--sustained-s", "600", "--timeout-s", "3")
    out, _ = process.communicate(timeout=120)
    failures = [record for record in parsed(out.splitlines()) if record["kind"] == "device-failure"]
    assert process.returncode == 1
    assert [one["row"] for one in failures] == ["sustained"]
    assert "the deadline of --timeout-s passed" in failures[0]["reason"]


def test_devices_that_the_node_lacks_are_named(capsys):
    assert perf.main(["--device", "cuda"]) == 4
    assert perf.main(["--device", "cpu", "--gpus", "x"]) == 4
    err = capsys.readouterr().err
    assert "finds 0 GPU(s)" in err and "--gpus takes indices such as 0,1, not 'x'" in err


def test_one_wrong_element_in_one_result_is_counted():
    def disturb(result, run):
        if run == 1:
            result.view(-1)[5] += 0.5
        return result

    for found in twice.measure(CPU, 0.0, disturb):
        assert (found.value, found.detail["runs"], found.detail["elements"]) == (1.0, 2, 1)


def test_a_value_that_changes_in_memory_is_counted(monkeypatch):
    chunks = pattern._chunks(CPU)

    class Stuck(list):
        """Memory with one bit that is always on: in the third value of the second chunk."""

        def __iter__(self):
            for chunk in super().__iter__():
                if chunk is self[1]:
                    chunk[2] |= 4
                yield chunk

    monkeypatch.setattr(pattern, "_chunks", lambda _: Stuck(chunks))
    (found,) = pattern.measure(CPU)
    # Wrong in the patterns that have this bit off: all bits off, and one of the two that alternate.
    assert found.value >= 2
    monkeypatch.setattr(pattern, "_chunks", lambda _: chunks)
    (found,) = pattern.measure(CPU)
    assert (found.value, found.detail["bytes"]) == (0, 2 << 20)


def test_a_type_that_the_device_lacks_has_a_reason_and_no_value():
    found = {one.name: one for one in gemm.measure(CPU, CPU_EFFORT, ("tf32", "bf16"))}
    assert (found["tf32"].value, found["tf32"].reason) == (None, "only GPUs have tf32")
    assert found["bf16"].value == max(found["bf16"].detail["shapes"].values()) > 0


def test_a_copy_counts_the_bytes_that_are_read_and_written(monkeypatch):
    monkeypatch.setattr(copies, "median_s", lambda *_: 0.001)
    (found,) = copies.within(CPU, CPU_EFFORT)
    assert found.value == pytest.approx(2 * found.detail["bytes"] / 0.001 / 1e9, rel=1e-5)


def test_the_load_is_summed_up_without_the_seconds_in_which_it_settles():
    rows = [
        {"at_s": float(second), "tflops": 700.0 - second, "clock_mhz": 1700 - second, "power_w": 690.0 + second,
         "throttle": ["sw-power-cap", "hw-thermal"] if second == 9 else ["sw-power-cap"]}
        for second in range(1, 11)
    ]  # fmt: skip
    rows[0]["clock_mhz"] = 300
    found = {one.name: one for one in sustained.summary(rows, "bf16")}
    assert (found["rate"].value, found["rate"].detail["lowest"]) == (693.5, 690.0)
    assert (found["clock"].value, found["power"].value) == (1690.0, 700.0)
    assert (found["throttled"].value, found["throttled"].detail["reasons"]) == (
        0.125, {"hw-thermal": 0.125, "sw-power-cap": 1.0},
    )  # fmt: skip
    assert "temperature" not in found


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    """Return the path of a library with NVML's functions for one GPU."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    library = str(folder / "libnvml.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, str(folder / "nvml.c")], check=True, timeout=60)
    return library


def test_sensors_are_read_from_the_library_and_what_it_does_not_report_is_left_out(nvml, tmp_path):
    library = nvml
    gpu = sensors.NvidiaSensors("GPU-a", library)
    assert gpu.sample() == {
        "clock_mhz": 1755, "memory_clock_mhz": 3201, "power_w": 698.5, "memory_temperature_c": 77,
        "throttle": ["sw-power-cap", "hw-thermal", "0x1000"],
    }  # fmt: skip
    assert gpu.constants() == {
        "clock_max_mhz": 1980, "power_limit_w": 700.0, "pcie_generation": 5, "pcie_width": 16, "driver": "570.86",
    }  # fmt: skip
    assert one_device.link_of(gpu) == "PCIe 5 x16"
    assert gpu.processes() == 2
    with pytest.raises(OSError, match="does not find the GPU GPU-b"):
        sensors.NvidiaSensors("GPU-b", library)
    with pytest.raises(OSError, match="absent"):
        sensors.NvidiaSensors("GPU-a", str(tmp_path / "absent.so"))


def metered(library, before, after, monkeypatch):
    """Return the report of a meter on the GPU of the stand-in NVML, whose counter has these two values."""
    monkeypatch.setattr(energy, "uuid_of", lambda _: "GPU-a")
    monkeypatch.setenv("NVML_ENERGY", before)
    meter = energy.EnergyMeter(torch.device("cuda", 0), library)
    meter.begin()
    monkeypatch.setenv("NVML_ENERGY", after)
    return meter.report(40)


def test_the_energy_of_a_run_is_the_growth_of_the_counter(nvml, monkeypatch):
    report = metered(nvml, "7000000000001", "7000000812001", monkeypatch)
    assert report["elapsed_s"] >= 0
    found = of_report({**report, "elapsed_s": 2.5})
    assert found == GpuEnergy("GPU-a", 812.0, 2.5, 40.0)
    assert "energy counter needs 1 s" in of_report({**report, "elapsed_s": 0.2})


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("error 3", "error 3", "this GPU has no energy counter"),
        ("error 4", "error 4", "no permission to read the energy counter"),
        ("12", "error 15", "NVML did not return the energy counter (error 15)"),
        ("5000", "4999", "the energy counter of a GPU went back during the run"),
    ],
)
def test_an_energy_that_is_not_available_has_its_reason(nvml, monkeypatch, before, after, reason):
    assert of_report(metered(nvml, before, after, monkeypatch)) == reason


def test_a_library_without_the_counter_or_no_library_is_a_reason(tmp_path, monkeypatch):
    assert "absent.so" in of_report(metered(str(tmp_path / "absent.so"), "1", "2", monkeypatch))
    (tmp_path / "old.c").write_text(NVML.replace("nvmlDeviceGetTotalEnergyConsumption", "of_a_later_driver"))
    old = str(tmp_path / "old.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", old, str(tmp_path / "old.c")], check=True, timeout=60)
    assert of_report(metered(old, "1", "2", monkeypatch)) == "this driver's NVML has no energy counter"
