"""Stand for `horovod` until it is imported: see `collective_core.aliases`."""

import importlib
import sys

from collective_core import aliases

aliases.install(["horovod"])
sys.modules["horovod"] = importlib.import_module(aliases.OURS["horovod"])
