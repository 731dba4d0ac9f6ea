"""``bench --compare``, ``--repeats``, ``--smoke``, ``--output horovod`` and BERT, with real ranks on this machine."""

import json
import re
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

CASES = Path(__file__).parents[1] / "unit" / "benchmarks" / "cases"
TWO = ("-np", "2", "--launcher", "local")
SHORT = ("-b", "1K", "-e", "64K", "-f", "64", "-n", "2", "-w", "1")
QUICK = ("--image-size", "32", "--batch-size", "2", "-n", "1", "--windows", "2", "--launcher", "local")


@pytest.fixture
def bench(run_clusterctl, tmp_path):
    """A function that runs ``bench`` on this machine as one node with these settings."""

    def run(*arguments, **settings):
        node = {
            "name": "here", "address": "localhost", "connection": "local", "python": sys.executable,
            "env": {"OMP_NUM_THREADS": "1"}, **settings,
        }  # fmt: skip
        path = tmp_path / "inventory.yaml"
        path.write_text(json.dumps({"version": 1, "nodes": [node]}))
        return run_clusterctl("bench", "-i", str(path), *arguments)

    return run


def only_run(tmp_path):
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    return folder


def test_libraries_are_measured_in_turns_by_one_program(bench, tmp_path):
    done = bench("--compare", "gloo,ccore", "--repeats", "2", *TWO, *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    turns = re.findall(r"^Measured all_reduce with .* \((variant .*)\) in ", done.stderr, re.MULTILINE)
    assert turns == [f"variant {name}, repeat {n} of 2" for n in (1, 2) for name in ("gloo", "ccore")]
    document = json.loads(done.stdout)
    assert document["status"] == "ok"
    gloo, ccore = document["variants"]
    assert [(v["name"], v["library"], v["repeats"]) for v in (gloo, ccore)] == [
        ("gloo", "gloo", 2), ("ccore", "ccore", 2)
    ]  # fmt: skip
    for one, other in zip(gloo["rows"], ccore["rows"], strict=True):
        assert one["size_bytes"] == other["size_bytes"]
        assert one["wrong"] == other["wrong"] == 0
        assert other["ratio"] == pytest.approx(one["time_us"]["median"] / other["time_us"]["median"])
        assert one["time_us"]["least"] <= one["time_us"]["median"] <= one["time_us"]["greatest"]
    # The library is the only thing that differs, and the ranks said so themselves.
    keys = [variant["keys"]["2"] for variant in (gloo, ccore)]
    assert {field for field in keys[0] if keys[0][field] != keys[1][field]} == {"library", "library_version"}
    assert keys[0]["program"] == "torch"
    folder = only_run(tmp_path)
    launches = json.loads((folder / "launch.json").read_text())["launches"]
    assert [(launch["variant"], launch["repeat"]) for launch in launches] == [
        ("gloo", 1), ("gloo", 2), ("ccore", 1), ("ccore", 2)
    ]  # fmt: skip
    assert (folder / "logs" / "2-ccore" / "1" / "rank-0.log").is_file()


def test_a_variable_reaches_the_ranks_of_its_variant_alone(bench, tmp_path):
    """The ranks' own count of threads is what they read from the variable that differs."""
    done = bench(
        "--model", "resnet18", "--library", "gloo", "--scaling", "1", "--compare",
        "OMP_NUM_THREADS=1,OMP_NUM_THREADS=2", "--repeats", "1", *QUICK, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout)["variants"]
    assert (one["keys"]["1"]["threads"], two["keys"]["1"]["threads"]) == ("1", "2")
    assert two["environment"] == {"OMP_NUM_THREADS": "2"}
    assert two["keys"]["1"]["environment"] == "OMP_NUM_THREADS=2"
    assert two["points"][0]["ratio"] > 0


def test_a_ratio_needs_settings_that_the_library_reports(bench):
    """Of three variants, collective_core reads two; no operation of this run is a top-k all_reduce."""
    variants = (
        "ccore,ccore+LIGHT_2D_ALLREDUCE=0,ccore+CCORE_ALGO=all_reduce:ring,ccore+CCORE_TOPK_ALLREDUCE=1"
    )
    done = bench("--compare", variants, "--repeats", "2", *TWO, *SHORT, "--json")
    assert done.returncode == 10, done.stderr
    plain, alias, ring, top_k = json.loads(done.stdout)["variants"]
    assert {row["algorithm"] for row in ring["proof"]["usage"]["algorithms"] if row["size_bytes"]} == {"ring"}
    assert alias["proof"]["usage"]["proven"] == {"LIGHT_2D_ALLREDUCE": "the ranks' reports"}
    assert all(row["ratio"] > 0 for one in (alias, ring) for row in one["rows"])
    assert top_k["rows"] == []
    assert "nothing in this run read CCORE_TOPK_ALLREDUCE" in top_k["proof"]["refused"]
    # The first launch of the variant ended the run.
    assert [one["repeats"] for one in (plain, alias, ring, top_k)] == [1, 1, 1, 1]
    assert "hint: train a model (--model) with --hook topk on two or more nodes" in done.stderr


def test_gloo_is_compared_only_by_variables_that_torch_reads(bench):
    done = bench(
        "--compare", "gloo,gloo+GLOO_SOCKET_IFNAME=lo,gloo+UCX_TLS=tcp", "--repeats", "1", *TWO, *SHORT
    )
    assert done.returncode == 10, done.stderr
    assert "settings in effect: GLOO_SOCKET_IFNAME (the ranks' reports)" in done.stdout
    assert (
        "setting-unproven: variant gloo+UCX_TLS=tcp: no figures: nothing in this run read UCX_TLS"
        in done.stderr
    )


def test_gdr_levels_without_nccl_are_refused_with_a_reason(bench):
    done = bench("--compare", "gdr=0,gdr=2", "--library", "gloo", *TWO, *SHORT)
    assert done.returncode == 10, done.stderr
    assert "NCCL_NET_GDR_LEVEL is read by nccl, not by gloo" in done.stderr
    assert "--library nccl" in done.stderr


def test_scripts_find_horovods_lines(bench):
    done = bench(
        "--model", "resnet18", "--library", "gloo", "--scaling", "1,2", "--output", "horovod", *QUICK
    )
    assert done.returncode == 0, done.stderr
    totals = re.findall(
        r"^Total img/sec on (\d+) CPU\(s\): (\d+\.\d) \+-(\d+\.\d)$", done.stdout, re.MULTILINE
    )
    assert [int(ranks) for ranks, _, _ in totals] == [1, 2]
    per_rank = re.findall(r"^Img/sec per CPU: (\d+\.\d) \+-\d+\.\d$", done.stdout, re.MULTILINE)
    assert float(totals[1][1]) == pytest.approx(2 * float(per_rank[1]), abs=0.2)


def test_bert_counts_sequences_in_document_and_table(bench, tmp_path):
    options = ("--model", "bert-tiny", "--library", "gloo", "--scaling", "1,2", "--phase", "1", "--batch-size", "2",
               "-n", "1", "--windows", "2", "--bucket-cap-mb", "5", "--launcher", "local")  # fmt: skip
    done = bench(*options, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    one, two = document["variants"][0]["points"]
    assert (two["np"], two["sample"]) == (2, "sequence") and two["loss"] > 0
    speeds = [point["samples_per_s"]["median"] for point in (one, two)]
    assert two["efficiency"] == pytest.approx(speeds[1] / speeds[0] / 2)
    settings = document["proof"]["settings"]
    assert (settings["sequence_length"], settings["predictions"], settings["parameters"]) == (
        128,
        20,
        4_433_468,
    )
    key = document["variants"][0]["keys"]["2"]
    assert (key["sequence_length"], key["batch_per_rank"], key["bucket_cap_mb"], key["optimizer"]) == (
        "128", "2", "5", "adamw"
    )  # fmt: skip


def test_smoke_passes_with_both_in_junit(bench, tmp_path):
    done = bench("--smoke", "--library", "gloo", *TWO, "--junit", str(tmp_path / "smoke.xml"), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["status"]) == ("clusterctl.smoke/1", "ok")
    collective, training = document["results"]
    assert [result["benchmark"] for result in document["results"]] == ["all_reduce", "resnet50"]
    assert all(row["wrong"] == 0 for row in collective["variants"][0]["rows"])
    assert [point["np"] for point in training["variants"][0]["points"]] == [2]
    xml = JUnitXml.fromfile(str(tmp_path / "smoke.xml"))
    assert (xml.tests, xml.failures, xml.errors) == (2, 0, 0)


def test_smoke_fails_with_a_true_exit_code(bench, tmp_path):
    """Wrong sums, replayed from a recorded run: exit 1, a failure in JUnit, and no training after it."""
    program = tmp_path / "all_reduce_perf"
    program.write_text(f'#!/bin/sh\n[ "$RANK" = 0 ] && cat {CASES}/wrong-values.txt\nexit 0\n')
    program.chmod(0o755)
    done = bench(
        "--smoke", *TWO, "--junit", str(tmp_path / "smoke.xml"), "--json", all_reduce_perf=str(program)
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "failed"
    assert [result["benchmark"] for result in document["results"]] == ["all_reduce"]
    xml = JUnitXml.fromfile(str(tmp_path / "smoke.xml"))
    assert (xml.tests, xml.failures) == (1, 1)


def test_smoke_names_what_it_does_not_go_with(bench):
    done = bench("--smoke", "--model", "resnet50", "-b", "8")
    assert done.returncode == 2
    done = bench("--smoke", "--collective", "broadcast")
    assert done.returncode == 2
    assert "--collective cannot be combined with it" in done.stderr
