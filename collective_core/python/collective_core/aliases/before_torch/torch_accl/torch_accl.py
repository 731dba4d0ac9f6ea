"""Stand for `torch_accl` until it is imported: see `collective_core.aliases`."""

import importlib
import sys

from collective_core import aliases

aliases.install(["torch_accl"])
sys.modules["torch_accl"] = importlib.import_module(aliases.OURS["torch_accl"])
