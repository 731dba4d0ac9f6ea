"""`collective_core.run`: a script runs as by Python alone, and what needs no change runs through the library."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collective_core.errors import CollectiveCoreError

from collective_core import aliases, locations, run

PROGRAMS = Path(__file__).resolve().parent / "programs"
RUN = (sys.executable, "-m", "collective_core.run")


@pytest.mark.parametrize(
    ("words", "own", "script"),
    [
        (["t.py", "--for-gloo"], [], ["t.py", "--for-gloo"]),
        (["--for-gloo", "-m", "pkg.train", "-x"], ["--for-gloo"], ["-m", "pkg.train", "-x"]),
        (["--no-nccl", "-mpkg"], ["--no-nccl"], ["-mpkg"]),
        (["-c", "pass"], [], ["-c", "pass"]),
        (["-"], [], ["-"]),
        (["--help"], ["--help"], []),
    ],
)
def test_everything_from_the_script_on_is_the_scripts(
    words: list[str], own: list[str], script: list[str]
) -> None:
    assert run.split(words) == (own, script)


@pytest.mark.parametrize(
    ("original", "arguments", "options"),
    [
        (["python", "-m", "collective_core.run", "t.py"], 1, []),
        (["python", "-O", "-X", "dev", "-m", "collective_core.run", "t.py", "a"], 2, ["-O", "-X", "dev"]),
        (["python", "-um", "collective_core.run", "t.py"], 1, ["-u"]),
        (["python", "-mcollective_core.run", "t.py"], 1, []),
        (["python", "-Omcollective_core.run", "t.py"], 1, ["-O"]),
        # The arguments may look like this program.
        (["python", "-m", "collective_core.run", "-m", "collective_core.run"], 2, []),
        (["python", "-m", "cProfile", "-m", "collective_core.run", "t.py"], 1, ["-m", "cProfile"]),
    ],
)
def test_pythons_own_options_are_kept(original: list[str], arguments: int, options: list[str]) -> None:
    assert run.python_options(original, arguments) == options


def test_a_start_by_path_is_refused_because_it_would_start_itself_again() -> None:
    with pytest.raises(CollectiveCoreError, match=r"not as /x/run\.py"):
        run.python_options(["python", "/x/run.py", "t.py"], 1)


def test_a_directory_of_the_name_is_not_an_installed_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python finds a plain directory, such as a clone of the sources, only if nothing else has the name."""
    (tmp_path / "torch_accl").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert "torch_accl" in aliases.free_names(force=False)
    (tmp_path / "torch_accl" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # forgets what importlib has cached
    assert "torch_accl" not in aliases.free_names(force=False)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without what this program reads."""
    for name in list(os.environ):
        if name.startswith(("CCORE_", "TORCH_DEVICE", "LD_PRELOAD", "NCCL_")) or name == "PYTHONPATH":
            monkeypatch.delenv(name)
    monkeypatch.setattr(aliases, "_is_installed", lambda name: name == "horovod")
    return monkeypatch


def test_the_variables_of_a_script(clean: pytest.MonkeyPatch) -> None:
    library = str(locations.nccl_library_path())
    accl = str(aliases.BEFORE_TORCH / "torch_accl")
    horovod = str(aliases.BEFORE_TORCH / "horovod")
    assert run.variables({}) == {
        "CCORE_RUN": "1", "CCORE_DEBUG": "VERSION", "LD_PRELOAD": library, "PYTHONPATH": accl,
    }  # fmt: skip
    for name, value in {"LD_PRELOAD": "libother.so", "PYTHONPATH": "/mine", "CCORE_DEBUG": "INFO"}.items():
        clean.setenv(name, value)
    made = run.variables({"CCORE_ALIAS": "force"})
    assert made["LD_PRELOAD"] == f"{library} libother.so"
    assert made["PYTHONPATH"] == os.pathsep.join((horovod, accl, "/mine"))  # before what is installed
    assert "CCORE_DEBUG" not in made
    # A script that starts others through this program adds nothing twice.
    for name, value in run.variables({}).items():
        clean.setenv(name, value)
    again = run.variables({})
    assert (again["LD_PRELOAD"], again["PYTHONPATH"]) == (
        f"{library} libother.so",
        os.pathsep.join(("/mine", accl)),
    )
    clean.setenv("CCORE_ALIAS", "0")
    assert run.variables({"CCORE_NCCL": "0"}).keys() == {"CCORE_RUN", "CCORE_NCCL"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "unset it"),
        ("CCORE_ALIAS", "perhaps", "CCORE_ALIAS=perhaps: expected 0 or 1 or force"),
        ("CCORE_NCCL", "no", "CCORE_NCCL=no: expected 0 or 1 or all"),
    ],
)
def test_variables_that_contradict(clean: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    clean.setenv(name, value)
    with pytest.raises(CollectiveCoreError, match=said):
        run.variables({})


SCRIPT = """
import multiprocessing, os, pickle, sys
def double(number):
    return 2 * number
class Kept:
    pass
if __name__ == "__main__":
    print(sys.argv, __name__, __file__, __spec__ and __spec__.name, __package__, sys.path[0], sys.flags.optimize)
    print(pickle.dumps(double), pickle.loads(pickle.dumps(Kept())).__class__, sys.modules["__main__"].double(2))
    print(sorted(name for name in globals() if "collective" in name))
    what = sys.argv[1:]
    if what == ["spawn"]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(double, [1, 2]))
    if what == ["fail"]:
        raise ValueError("of the script")
    if what == ["signal"]:
        os.kill(os.getpid(), 15)
    if what == ["interrupt"]:
        raise KeyboardInterrupt
    sys.exit(len(what))
"""


@pytest.mark.parametrize(
    "words",
    [
        ("train.py",), ("./train.py", "--for-gloo", "x"), ("train.py", "spawn"), ("train.py", "fail"),
        ("train.py", "signal"), ("train.py", "interrupt"), ("-m", "package.train", "x"), ("package",),
        ("-c", "import sys; print(sys.argv, __name__)", "x"), ("missing.py",), ("-m", "missing.module"),
        ("-m", "package.broken"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_script_runs_as_by_python_alone(words: tuple[str, ...], tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for file in (tmp_path / "train.py", package / "train.py", package / "__main__.py"):
        file.write_text(SCRIPT)
    (package / "__init__.py").write_text("")
    (package / "broken.py").write_text("import no_such_module\n")
    alone, through = (
        subprocess.run(
            (sys.executable, "-O", *before, *words), cwd=tmp_path, capture_output=True, text=True, timeout=60,
            check=False,
        )
        for before in ((), RUN[1:])
    )  # fmt: skip
    assert through.stdout == alone.stdout
    assert through.returncode == alone.returncode
    assert through.stderr == alone.stderr


def test_signals_reach_the_script_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.01)  # pause() would miss a signal that came just before it\n"
    )
    with subprocess.Popen((*RUN, str(script)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7


LOADED = """
import os, subprocess, sys
mapped = open("/proc/self/maps").read()
print(os.environ["CCORE_RUN"], os.environ["CCORE_CPU_BINDING"], "libcollective_core_nccl" in mapped)
if len(sys.argv) == 1:
    subprocess.run((sys.executable, "-c", sys.argv[0] and open(sys.argv[0]).read(), "child"), check=True)
"""


def test_the_library_is_in_front_of_nccl_in_the_script_and_its_children(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOADED)
    done = subprocess.run(
        (*RUN, "--bind-cpus", str(script)), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("1 1 True\n1 1 True\n", 0), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "no script: write python -m collective_core.run train.py"), (("--for-glo", "t.py"), "--for-glo")],
)
def test_wrong_use_is_explained(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run((*RUN, *words), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "usage: python -m collective_core.run" in done.stderr


@pytest.fixture
def unled(environment: dict[str, str]) -> dict[str, str]:
    """What a user's shell has: no rendezvous of the library, and no settings of this program."""
    return {
        name: value for name, value in environment.items() if not name.startswith(("CCORE_ROOT", "CCORE_JOB"))
    }


def test_the_ddp_tutorial_runs_on_ccore_in_spawned_ranks(unled: dict[str, str]) -> None:
    words = (*RUN, "--for-gloo", str(PROGRAMS / "unchanged_tutorial.py"), "70")
    done = subprocess.run(words, env=unled, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ccore backend init rank") == 2, done.stderr
    # 13 steps with each size, and 13 more of the default and the fastest if that is another one.
    (tuned,) = [line for line in done.stderr.splitlines() if "bucket_cap_mb of DDP is" in line]
    assert re.search(r"a step takes default: \S+ ms, 1: \S+ ms, 4: \S+ ms$", tuned), tuned
    results = sorted(line.split() for line in done.stdout.splitlines())
    assert [row[:3] for row in results] == [["rank", "0", "ccore"], ["rank", "1", "ccore"]]
    assert results[0][3] == results[1][3]


def test_a_script_for_accl_runs_on_ccore(ranks: Any) -> None:
    ranks.start((*RUN, str(PROGRAMS / "unchanged_accl.py")), 2)
    for rank, one in enumerate(ranks.finish()):
        assert one.returncode == 0, one.output
        assert "accl [[0.5, 0.5, 0.5, 0.5]]" in one.output
        assert f"ccore backend init rank {rank}/2" in one.output


def test_a_device_mesh_without_a_group_is_announced_with_the_backend_that_torch_chose(
    unled: dict[str, str], tmp_path: Path
) -> None:
    script = (
        "import torch.distributed as dist; from torch.distributed.device_mesh import init_device_mesh; "
        "init_device_mesh('cpu', (1,)); print(dist.get_backend()); dist.destroy_process_group()"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    done = subprocess.run(
        (*RUN, "-c", script), env=unled | rank, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout == "undefined\n", done.stderr
    assert "does not serve backend gloo rank 0/1 host" in done.stderr
    assert "--for-gloo or CCORE_FOR_GLOO=1 serves it" in done.stderr


@pytest.mark.parametrize(
    ("given", "torch_chooses", "used"),
    [
        ((), "cpu:gloo", "ccore"),
        ((), "cuda:nccl", None),
        (("gloo",), "cuda:nccl", "ccore"),
        (("cpu:gloo,cuda:nccl",), "cpu:gloo", "cpu:gloo,cuda:nccl"),
    ],
)
def test_for_gloo_serves_each_call_that_torch_would_give_to_gloo_alone(
    clean: pytest.MonkeyPatch, given: tuple[str, ...], torch_chooses: str, used: str | None
) -> None:
    import torch.distributed as dist
    from collective_core.torch import unchanged

    calls: list[str | None] = []

    def original(backend: str | None = None) -> None:
        calls.append(backend)

    clean.setenv("CCORE_FOR_GLOO", "1")
    clean.setattr(unchanged.distributed_c10d, "BackendConfig", lambda _: torch_chooses)
    for name, value in {"get_backend_config": "cpu:gloo", "get_rank": 0, "get_world_size": 1}.items():
        clean.setattr(dist, name, lambda *_, result=value: result)
    unchanged._init_process_group(original, *given)
    assert calls == [used]


def test_nccl_is_announced_with_what_is_beside_it(
    clean: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """torch's build for CPUs has no NCCL, so that the group and the library's counts are made up."""
    import torch.distributed as dist
    from collective_core.torch import unchanged

    at_exit: list[tuple[Any, ...]] = []
    clean.setattr(unchanged.atexit, "register", lambda *call: at_exit.append(call))
    for name, value in {"get_backend_config": "cuda:nccl", "get_rank": 3, "get_world_size": 8}.items():
        clean.setattr(dist, name, lambda *_, result=value: result)
    clean.setenv("NCCL_NET_PLUGIN", "none")
    clean.setenv("NCCL_TUNER_PLUGIN", "none")
    clean.delenv("NCCL_NET_PLUGIN")
    clean.setattr(unchanged, "_RDMA", tmp_path)
    unchanged._offer_plugins()
    counts = {"ncclAllReduce": {"taken": 5, "passed": 2}, "ncclSend": {"taken": 0, "passed": 1}}
    clean.setattr(unchanged, "_report_of_library", lambda: lambda: {"functions": counts})
    caplog.set_level(logging.INFO, "collective_core")

    unchanged._init_process_group(lambda backend: None, "nccl")
    for function, *given in at_exit:
        function(*given)
    init, end = caplog.messages
    assert "nccl init rank 3/8 host" in init
    assert init.endswith("libcollective_core_nccl.so in front of NCCL; net plugin ccore, tuner plugin none")
    assert end.endswith("nccl end rank 3: 5 calls taken, 3 passed to NCCL")

    clean.setattr(unchanged, "_report_of_library", lambda: None)
    unchanged._init_process_group(lambda backend: None, "nccl")
    assert "NCCL alone, start with `python -m collective_core.run`" in caplog.messages[-1]
    # With RDMA devices, the network is NCCL's.
    (tmp_path / "mlx5_0").mkdir()
    clean.delenv("NCCL_NET_PLUGIN")
    unchanged._offer_plugins()
    assert "NCCL_NET_PLUGIN" not in os.environ
