"""``clusterctl accept`` on two guests with their own kernel: its log, a disk, and RDMA over Soft-RoCE."""

import json

# What takes a kernel of its own. Those of CPU and memory run in containers (test_accept_docker.py): guests without KVM
# would compute for a minute.
ROWS = "requirements,drift,disk,rdma-bandwidth,rdma-latency"
FIELDS = {"rdma-bandwidth": ("write_gbit_per_s", "Gb/s"), "rdma-latency": ("latency_us", "us")}
CLOCK = "rxe0 not measured: perftest could not read the clock (Correlation coefficient r^2: "
LEFT = "ls -d /tmp/clusterctl-* /var/tmp/clusterctl-* 2>/dev/null || true"


def printed(directory, row):
    """Return whether perftest itself printed that it could not read the clock."""
    logs = directory.glob(f"runs/*/logs/{row}/*.log")
    return any("\nCorrelation coefficient r^2: " in path.read_text(errors="replace") for path in logs)


def test_two_guests_are_measured_with_real_tools_over_soft_roce(qemu_lab, run_clusterctl, tmp_path):
    done = run_clusterctl(
        "accept", str(qemu_lab.lab.inventory_path), "--only", ROWS, "--html", str(tmp_path / "page.html"), "--json",
        env={
            "CLUSTERCTL_KNOWN_HOSTS": str(qemu_lab.lab.known_hosts_path), "CLUSTERCTL_CONNECT_TIMEOUT_S": "60",
        },
        timeout_s=1100,
    )  # fmt: skip
    document = json.loads(done.stdout)
    rows = {(node["name"], row["row"]): row for node in document["nodes"] for row in node["rows"]}
    # A guest that waits for the processor hides from perftest how fast its clock is.
    unread = {
        key
        for key, row in rows.items()
        if key[1] in FIELDS and CLOCK in row["reason"] and printed(tmp_path, key[1])
    }
    # How fast guests without KVM are says nothing, so that a value below the other node's may be WARN.
    bad = {
        key: row
        for key, row in rows.items()
        if row["status"] not in (("not-run",) if key in unread else ("ok", "warn", "measured"))
    }
    assert not bad, f"{bad}\n{done.stderr}"
    for node in ("node1", "node2"):
        for row in FIELDS.keys() - {row for name, row in unread if name == node}:
            (value,) = rows[node, row]["values"]
            assert (value["device"], value["field"], value["unit"]) == ("rxe0", *FIELDS[row])
            assert value["value"] > 0
        assert len(rows[node, "disk"]["values"]) == 3
        assert qemu_lab.output(node, LEFT) == ""
    assert "Soft-RoCE" in (tmp_path / "page.html").read_text()
