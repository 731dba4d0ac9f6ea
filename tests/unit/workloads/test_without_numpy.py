"""Ranks exchange objects on a node that has torch but not numpy."""

import subprocess
import sys

from clusterctl.workloads.archive import build

PROGRAM = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
from clusterctl.workloads import places, ranks
assert sys.argv[1] in ranks.__file__
ranks.join(places.read_place({}), "gloo", torch.device("cpu"), 60.0)
gathered, shared = [None], [{"sent": 1}]
dist.all_gather_object(gathered, {"rank": 0})
dist.broadcast_object_list(shared, src=0)
dist.destroy_process_group()  # its threads may end the process badly if they outlive the interpreter
print(gathered, shared)
"""


def test_objects_are_gathered_without_numpy(tmp_path):
    archive = tmp_path / "workloads.pyz"
    archive.write_bytes(build())
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(archive)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "[{'rank': 0}] [{'sent': 1}]\n", done.stderr
