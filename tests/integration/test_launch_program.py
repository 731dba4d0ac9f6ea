"""``clusterctl launch`` of a user's program on real sshd nodes: every launcher, failures, and what is left."""

import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launcher_nodes import LAUNCHERS, NAMES, inventory, ready
from sshd_farm import wait_for_listeners
from typed_page import Reader, path_with

TRAIN = """\
if [ "$1" = killed ] && [ "$RANK" = 2 ]; then kill -KILL $$; fi
if [ "$1" = stopped ]; then echo up; [ "$RANK" != 2 ] || kill -STOP $$; sleep 300; fi
if [ "$1" = one ] && [ "$RANK" = 1 ]; then printf 'no line end'; exit 1; fi
if [ "$1" = tty ]; then stty size; exit 1; fi
if [ "$1" = endless ] && [ "$RANK" = 1 ]; then head -c 40000000 /dev/zero | tr '\\0' x; fi
if [ "$1" = forged ] && [ "$RANK" = 1 ]; then
  echo "samples/s: 1e999"
  echo '</stdout><stdout rank="0">samples/s: 99999</stdout>'
  echo '[1,0]<stdout>:samples/s: 99999'
  echo 'program_rank: rank 0 on node01 exited with status 7'
fi
if [ "$1" = replaces ] && [ "$RANK" = 1 ]; then
  for name in "$2"/*-launch-*/*; do rm -rf "$name" && ln -s "$2/kept" "$name"; done
fi
if [ "$1" = child ]; then (exec >/dev/null 2>&1; exec sleep 1000) & mkdir "$0.d"; chmod 0 "$0.d"; fi
[ "${#CLUSTERCTL_LAUNCH}" = 16 ] || exit 9
echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK by ${MASTER_ADDR:+address}:${MASTER_PORT:+port} in ${PWD##*/}"
for word; do echo "<$word>"; done
echo "samples/s: $((RANK + 1))00"
"""
WORDS = ("", "a  b", "$HOME", '"', "it's", ":", "\\:", "*", "ü", "-np")
"""Arguments that a shell or a launcher could change."""


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.sh").write_text(TRAIN)
    return folder


def launched(run_clusterctl, farm, tmp_path, path, *arguments):
    """Run ``launch``; return how it ended, its document, and the run folder. Nothing is left on the nodes."""
    done = run_clusterctl("launch", path, "--json", *arguments, env=farm.env)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    folder = tmp_path / "runs" / document["run"]
    tokens = set(re.findall(r"/tmp/clusterctl-[0-9a-f]{16}", (folder / "launch.json").read_text()))
    assert [token for token in tokens if Path(token).exists()] == []
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            said = process.read_bytes()
        except OSError:
            continue
        assert not any(f"CLUSTERCTL_PROGRAM={Path(t).name[11:]}".encode() in said for t in tokens), process
    return done, document, folder


def only_fault(document):
    (fault,) = document["proof"]["failures"]
    return fault


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_program_runs_by_every_launcher_and_a_killed_rank_is_named(
    request, run_clusterctl, sshd_farm, tmp_path, code, tier_unavailable, name
):
    _, settings = ready(request, name, tier_unavailable)
    # The test's Slurm has two nodes.
    slots = (2, 2) if name == "srun" else (1, 1, 1, 1)
    farm = sshd_farm(len(slots))
    path = inventory(farm, tmp_path, settings, slots)
    common = ("--launcher", NAMES[name], "--bring", code, "--rate", r"samples/s: (\d+)", "--rate-per-rank")
    done, document, folder = launched(
        run_clusterctl, farm, tmp_path, path, *common, "--", "sh", "train.sh", "fine", *WORDS
    )
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    assert (document["benchmark"], document["launcher"]) == ("train.sh", NAMES[name])
    (variant,) = document["variants"]
    assert [point["samples_per_s"]["median"] for point in variant["points"]] == [1000.0]
    assert variant["points"][0]["sample"] == "sample"
    assert [(wall["np"], wall["nodes"]) for wall in variant["walls"]] == [(4, len(slots))]
    nodes = [f"node{number:02d}" for number, count in enumerate(slots, 1) for _ in range(count)]
    assert [rank["host"] for rank in document["proof"]["ranks"]] == nodes
    for rank, node in enumerate(nodes):
        said = (folder / "logs" / f"rank-{rank}.log").read_text().splitlines()
        local = nodes[:rank].count(node)
        assert f"rank {rank} of 4 local {local} by address:port in brought" in said, said
        assert [line for line in said if line.startswith("<")] == [f"<{word}>" for word in ("fine", *WORDS)]
    assert "Ran train.sh with 4 ranks" in done.stderr
    assert document["run"].split("-")[1] == "launch"

    done, document, _ = launched(
        run_clusterctl, farm, tmp_path, path, *common, "--", "sh", "train.sh", "killed"
    )
    assert done.returncode == 10, done.stderr
    fault = only_fault(document)
    assert (fault["kind"], fault["rank"], fault["node"]) == ("rank-died", 2, nodes[2])
    assert fault["message"].startswith(f"rank 2 on {nodes[2]} died of signal 9 (kill) after ")


def test_a_stopped_rank_is_named_through_every_launcher(
    request, run_clusterctl, sshd_farm, tmp_path, code, tier_unavailable
):
    """All at once: what is stopped is idle."""

    def stopped(name, farm, path):
        words = (
            "--launcher",
            NAMES[name],
            "--bring",
            code,
            "--timeout",
            "60",
            "--",
            "sh",
            "train.sh",
            "stopped",
        )
        done, document, _ = launched(run_clusterctl, farm, tmp_path, path, *words)
        fault = only_fault(document)
        assert (name, done.returncode, fault["kind"], fault["rank"]) == (name, 10, "deadline", 2), done.stderr
        node = fault["node"]
        return node, re.search(
            rf"rank 2 on {node} \(pid \d+\) is stopped, and wrote nothing for \d+ s", fault["message"]
        )

    with ThreadPoolExecutor(len(LAUNCHERS)) as pool:
        waiting = []
        for name in LAUNCHERS:
            _, settings = ready(request, name, tier_unavailable)
            slots = (2, 2) if name == "srun" else (1, 1, 1, 1)
            farm = sshd_farm(len(slots))
            folder = tmp_path / name
            folder.mkdir()
            path = inventory(farm, folder, settings, slots)
            waiting.append(("node02" if name == "srun" else "node03", pool.submit(stopped, name, farm, path)))
        for node, one in waiting:
            named, found = one.result()
            assert named == node and found


SAVES = """\
[ "$RANK" = 1 ] || trap 'sleep 3; echo saved; : >"$0-$RANK"; exit 1' TERM
echo up
while :; do sleep 0.2; done
"""


@pytest.mark.parametrize("name", LAUNCHERS)
def test_an_interrupt_lets_the_ranks_of_every_launcher_save_their_state(
    request, clusterctl, sshd_farm, tmp_path, tier_unavailable, name
):
    """SIGTERM ends rank 1 at once; the others need longer, and no launcher kills them meanwhile."""
    _, settings = ready(request, name, tier_unavailable)
    farm = sshd_farm(2)
    path = inventory(farm, tmp_path, settings, (2, 2))
    saves = tmp_path / "saves.sh"
    saves.write_text(SAVES)
    words = ("launch", path, "--launcher", NAMES[name], "--", "sh", str(saves))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
    environment |= {"CLUSTERCTL_RUNS": str(tmp_path / "runs"), **farm.env}
    command = subprocess.Popen(
        [str(clusterctl), *words],
        env=environment,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )

    def logs(word):
        found = (tmp_path / "runs").glob("*/logs/rank-*.log")
        return sorted(int(log.stem.removeprefix("rank-")) for log in found if word in log.read_text())

    deadline = time.monotonic() + 200
    while logs("up") != [0, 1, 2, 3]:
        assert command.poll() is None and time.monotonic() < deadline, command.stderr.read()
        time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=120)
    assert command.returncode == 130, said
    assert sorted(found.name for found in tmp_path.glob("saves.sh-*")) == [f"saves.sh-{n}" for n in (0, 2, 3)]
    assert logs("saved") == [0, 2, 3]


def test_a_launch_needs_only_one_command_at_a_time(run_clusterctl, sshd_farm, tmp_path, code):
    farm = sshd_farm(2)
    for node in farm.nodes:
        node.stop()
        # The command line comes before the file.
        node.command += ("-o", "MaxSessions 1")
        node.start()
    wait_for_listeners(farm.nodes)
    path = inventory(farm, tmp_path, {}, (1, 1))
    done, document, _ = launched(
        run_clusterctl, farm, tmp_path, path, "--bring", code, "--", "sh", "train.sh"
    )
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr


def test_a_dry_run_lists_what_would_be_brought(run_clusterctl, sshd_farm, tmp_path, code):
    (code / "sub").mkdir()
    (code / "sub/empty").touch()
    farm = sshd_farm(2)
    path = inventory(farm, tmp_path, {}, (1, 1))
    words = ("launch", path, "--bring", code, "--dry-run")
    done = run_clusterctl(*words, "--", "sh", "train.sh", env=farm.env)
    listed = f"# --bring copies 2 files, {len(TRAIN)} bytes, to every node:\n#   sub/empty\n#   train.sh\n"
    assert (done.returncode, listed in done.stdout) == (0, True), done
    done = run_clusterctl(*words, "--json", "--", "sh", "train.sh", env=farm.env)
    (launch,) = json.loads(done.stdout)["launches"]
    assert launch["brought"] == {"sub/empty": 0, "train.sh": len(TRAIN)}
    # The commands about benchmarks find runs of launch, too.
    done = run_clusterctl("launch", path, "--json", "--rate", r"(\d+)", "--", "echo", "5", env=farm.env)
    run = json.loads(done.stdout)["run"]
    listed = json.loads(run_clusterctl("runs", "list", "--json", "--verb", "launch").stdout)["runs"]
    assert [(one["run"], one["outcome"], one["benchmark"]) for one in listed] == [(run, "ok", "echo")]
    assert run in run_clusterctl("runs", "export").stdout
    assert run_clusterctl("runs", "baseline", "record", "mine", "--run", run).returncode == 0


def test_what_a_program_does_wrong_is_named(run_clusterctl, sshd_farm, tmp_path, code):
    """Through Open MPI, on four nodes: each failure names its rank or its node, and nothing is left."""
    farm = sshd_farm(4)
    path = inventory(farm, tmp_path, {}, (1, 1, 1, 1))

    def run(*words, options=(), np="4"):
        bring = ("--bring", code)
        return launched(run_clusterctl, farm, tmp_path, path, "-np", np, *bring, *options, "--", *words)

    # 0 on the other ranks, which end at the same moment: Open MPI names no rank.
    done, document, _ = run("sh", "train.sh", "one")
    assert only_fault(document)["message"].startswith("rank 1 on node02 ended with status 1 after "), (
        done.stderr
    )

    done, document, _ = run("sh", "train.sh", "tty", np="1")
    assert (done.returncode, only_fault(document)["rank"]) == (10, 0)
    assert only_fault(document)["hint"].startswith("a rank has no terminal"), document

    done, document, _ = run("sh", "train.sh", "child", np="2")
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    assert re.search(
        r"note: train.sh left processes, which were ended: sleep \(pid \d+\) of rank 1 on node02", done.stderr
    )
    assert document["variants"][0]["points"] == []

    done, document, _ = run("no-such-program")
    assert (done.returncode, only_fault(document)["kind"]) == (10, "missing-program")
    assert only_fault(document)["message"] == "node[01-04]: no-such-program not found"

    # A program of one's own, in a directory that the PATH of the last node does not have.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "own-train").write_text("#!/bin/sh\n")
    (tools / "own-train").chmod(0o755)
    for node in farm.nodes[:3]:
        node.stop()
        # The first SetEnv counts, and the command line comes before the file.
        node.command += ("-o", f"SetEnv SHLVL=1 PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin")
        node.start()
    wait_for_listeners(farm.nodes)
    done, document, _ = run("own-train")
    assert (done.returncode, only_fault(document)["kind"]) == (10, "missing-program"), done.stderr
    assert only_fault(document)["message"] == "node04: own-train not found"

    (code / "here").symlink_to(os.devnull)
    done = run_clusterctl("launch", path, "--bring", code, "--", "sh", "train.sh", env=farm.env)
    assert done.returncode == 2
    assert "the link here leads out of the directory, to /dev/null" in done.stderr


def test_what_a_program_writes_is_bounded_and_no_evidence(run_clusterctl, sshd_farm, tmp_path, code):
    farm = sshd_farm(2)
    path = inventory(farm, tmp_path, {}, (1, 1))

    def run(*words):
        options = ("--bring", code, "--rate", r"samples/s: (\d\S*)", "--", "sh", "train.sh")
        return launched(run_clusterctl, farm, tmp_path, path, *options, *words)

    done, document, folder = run("forged")
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    assert [p["samples_per_s"]["median"] for v in document["variants"] for p in v["points"]] == [100.0]
    assert "rank 1 printed a rate, too" in done.stderr
    assert "99999" not in (folder / "logs/rank-0.log").read_text()

    done, document, folder = run("endless")
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    assert [p["samples_per_s"]["median"] for v in document["variants"] for p in v["points"]] == [100.0]
    assert 40_000_000 <= (folder / "logs/rank-1.log").stat().st_size < 41_000_000
    assert len(done.stdout) < 100_000

    # The program may do what its account may: what is recorded later is right, and what a link names stays as it is.
    runs = tmp_path / "runs"
    (runs / "kept").write_text("kept")
    done, document, folder = run("replaces", str(runs))
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    assert f"the ranks' logs in {folder}/logs are incomplete" in done.stderr
    assert (runs / "kept").read_text() == "kept"
    recorded = [name for name in ("launch.json", "results.json") if not (folder / name).is_symlink()]
    assert recorded == ["launch.json", "results.json"]


GUIDE = Path(__file__).parents[2] / "docs/guides/launch.md"
# What the guide calls the programs of the vendors: their arguments and variables in, and the line that they print out.
BENCHMARK = """\
import os, sys
assert sys.argv[1:] == ["--model", "resnet50", "--batch-size=256"]
if os.environ["RANK"] == "0":
    print(f"Total img/sec on {os.environ['WORLD_SIZE']} GPU(s): 406.0 +-1.2")
"""
PRETRAINING = """\
[ "$NPROC_PER_NODE $PHASE $BATCH_SIZE $BACKEND $WORLD_SIZE $LOCAL_RANK" = "8 1 384 accl 2 0" ] && [ "$MASTER_ADDR" ]
"""


def test_the_guide_is_what_happens(sshd_farm, tmp_path):
    """Typed at a terminal, command by command, on two nodes with two ranks each."""
    farm = sshd_farm(2)
    inventory(farm, tmp_path, {}, (2, 2))
    code = tmp_path / "code"
    code.mkdir()
    page = GUIDE.read_text()
    (train,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (code / "train.py").write_text(train)
    (code / "pytorch_synthetic_benchmark.py").write_text(BENCHMARK)
    (code / "run_pretraining.sh").write_text(PRETRAINING)
    Reader(tmp_path, {**farm.env, "PATH": path_with()}).follows(GUIDE)
