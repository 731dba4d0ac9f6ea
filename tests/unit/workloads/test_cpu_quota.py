"""The quotas above a process are found under both versions of cgroups, and what cannot be read names no group."""

from __future__ import annotations

import json

import pytest

from clusterctl.benchmarks import cpu_quota as reports
from clusterctl.workloads.cpu_quota import CpuGroup, CpuQuota, read

V1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n33 31 0:30 {root} /sys/fs/cgroup/cpu rw - cgroup cgroup {of}\n"
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
TOP_1, TOP_2 = "sys/fs/cgroup/cpu", "sys/fs/cgroup"


def v1(quota, periods=0, throttled=0, throttled_ns=0):
    """A group as Linux 6.1 shows it, in microseconds and nanoseconds."""
    stat = f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {throttled_ns}\nnr_bursts 0\nburst_time 0\n"
    return {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n", "cpu.stat": stat}


def v2(limit, periods=0, throttled=0, throttled_us=0):
    usage = "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"
    stat = f"{usage}nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {throttled_us}\n"
    return {"cpu.max": f"{limit}\n", "cpu.stat": stat}


def plant(root, member, mounts, groups):
    """Write these files below a directory that stands for ``/``, and return its ``/proc/self``."""
    proc = root / "proc" / "self"
    files = {"proc/self/cgroup": member, "proc/self/mountinfo": mounts}
    files |= {f"{path}/{name}": text for path, group in groups.items() for name, text in group.items()}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return proc


HELD = CpuGroup(10000, 100000, (12, 11, 982064))
FREE = CpuGroup(None, 100000, (0, 0, 0))
CASES = {
    "v1": (
        "9:name=systemd:/\n1:cpu,cpuacct:/jobs/a\n0::/\n", HYBRID.format(root="/", of="rw,cpu,cpuacct"),
        {f"{TOP_1}/jobs/a": v1(10000, 12, 11, 982064033), f"{TOP_1}/jobs": v1(-1), TOP_1: v1(-1)},
        [("/jobs/a", HELD), ("/jobs", FREE), ("", FREE)],
    ),
    "v1 in a container that sees its own group only": (
        "1:cpu:/docker/ab\n", V1.format(root="/docker/ab", of="rw,cpu"), {TOP_1: v1(10000, 12, 11, 982064033)},
        [("", HELD)],
    ),
    "v2": (
        "0::/system.slice/job.scope\n", V2,
        {f"{TOP_2}/system.slice/job.scope": v2("max 100000"),
         f"{TOP_2}/system.slice": v2("10000 100000", 12, 11, 982064),
         TOP_2: {"cpu.stat": "usage_usec 5\n"}},
        [("/system.slice/job.scope", FREE), ("/system.slice", HELD)],
    ),
    "v2 in a container with a cgroup namespace": (
        "0::/\n", V2, {TOP_2: v2("10000 100000", 12, 11, 982064)}, [("", HELD)],
    ),
    "a group without counters": (
        "0::/a\n", V2, {f"{TOP_2}/a": {"cpu.max": "10000 100000\n", "cpu.stat": "usage_usec 5\n"}},
        [("/a", CpuGroup(10000, 100000, None))],
    ),
    "no cgroups in this container": ("0::/a\n", "23 1 0:21 / / rw - overlay overlay rw\n", {}, []),
    "outside of the namespace": ("0::/../b\n", V2, {TOP_2: v2("10000 100000")}, []),
    "another part of the tree": ("1:cpu:/b\n", V1.format(root="/docker/ab", of="rw,cpu"), {TOP_1: v1(10000)}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_visible_group_above_the_process_is_read(tmp_path, case):
    member, mounts, groups, expected = CASES[case]
    top = TOP_1 if "cgroup cgroup" in mounts else TOP_2
    found, unread = read(plant(tmp_path, member, mounts, groups), tmp_path)
    assert list(found.items()) == [(f"/{top}{below}", group) for below, group in expected]
    assert unread == []


def test_what_cannot_be_read_is_reported_and_the_other_groups_are_read(tmp_path):
    (tmp_path / TOP_2 / "cpu.stat").mkdir(parents=True)  # a file that root cannot read either
    groups = {f"{TOP_2}/a": v2("10000 100000", 12, 11, 982064), TOP_2: {"cpu.max": "10000 100000\n"}}
    groups |= {f"{TOP_2}/a/b": v2("ten"), f"{TOP_2}/a/b/c": v2("10000 100000", "many")}
    groups[f"{TOP_2}/a/b/c/d"] = {"cpu.max": "10000 100000\n"}
    found, unread = read(plant(tmp_path, "0::/a/b/c/d\n", V2, groups), tmp_path)
    assert found == {f"/{TOP_2}/a": HELD}
    below = ["/a/b/c/d", "/a/b/c", "/a/b", ""]
    assert [line.partition(": ")[0] for line in unread] == [f"/{TOP_2}{path}" for path in below]
    assert unread[0].endswith(": No such file or directory") and unread[3].endswith(": Is a directory")


def test_the_report_holds_what_was_counted_in_between_of_groups_with_a_quota(tmp_path):
    groups = {f"{TOP_2}/a": v2("max 100000", 12, 11, 982064), TOP_2: v2("max 100000")}
    proc = plant(tmp_path, "0::/a\n", V2, groups)
    quota = CpuQuota(proc, tmp_path)
    plant(tmp_path, "0::/a\n", V2, {f"{TOP_2}/a": v2("20000 100000", 22, 16, 1482064)})
    found = reports.of_report(json.loads(json.dumps(quota.report())))
    (use,) = found.groups
    assert (use.group, use.cpus, use.periods, use.stopped, use.stopped_us) == (
        f"/{TOP_2}/a",
        0.2,
        10,
        5,
        500000,
    )
    assert found.elapsed_s >= 0 and found.unread == ()


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ([12, 11, 500], [12, 10, 400], "fell during the measurement"),  # the group was made again
        (None, [12, 11, 500], "not read before"),  # the process was moved into the group
        ([12, 11, 500], None, "not read after"),
    ],
)
def test_counters_that_cannot_be_compared_are_a_sentence_and_no_use(before, after, reason):
    group = {"group": "/g", "quota_us": 1000, "period_us": 100000, "before": before, "after": after}
    found = reports.of_report({"elapsed_s": 2.0, "groups": [group], "unread": ["/h: Permission denied"]})
    assert found.groups == () and found.unread[0] == "/h: Permission denied"
    assert reason in found.unread[1]


GOOD = {"group": "/g", "quota_us": 1000, "period_us": 100000, "before": [0, 0, 0], "after": [9, 9, 9]}


@pytest.mark.parametrize(
    "report",
    [
        None, [], {}, {"elapsed_s": "1", "groups": [], "unread": []}, {"elapsed_s": -1, "groups": [], "unread": []},
        *(
            {"elapsed_s": 1, "groups": [{**GOOD, **change}], "unread": []}
            for change in ({"period_us": 0}, {"quota_us": -1}, {"after": [1, 2]}, {"after": "abc"}, {"group": 7},
                           {"before": [True, 0, 0]}, {"after": [1 << 80, 0, 0]})
        ),
        {"elapsed_s": 1, "groups": ["/g"], "unread": []},
        {"elapsed_s": 1, "groups": [GOOD] * 100, "unread": []},
    ],
)  # fmt: skip
def test_a_malformed_report_counts_as_none(report):
    assert reports.of_report(report) is None
