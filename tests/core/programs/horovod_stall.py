"""Two ranks that call differently: both report what waits for whom, once as a warning and at last as an error."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import collective_core.horovod.torch as hvd
import pytest
import torch

logging.basicConfig()
hvd.init()
hvd.allreduce(
    torch.ones(1), name="both"
)  # what only the first call needs is there, so that the next are made at once
if "absent" in sys.argv:  # the last rank makes no call until another one has warned
    warned = Path(os.environ["STALL_WARNED"])
    if hvd.rank() == hvd.size() - 1:
        while not warned.exists():
            time.sleep(0.02)
    else:
        logging.getLogger("collective_core").addFilter(
            lambda said: "no call at all" not in str(said.msg) or not warned.touch()
        )
    hvd.allreduce(torch.ones(1), name="late")
    hvd.shutdown()
    sys.exit()
with pytest.raises(hvd.HorovodInternalError) as caught:
    hvd.allreduce(torch.ones(1), name="other" if hvd.rank() else "one")
print(caught.value)
with pytest.raises(hvd.HorovodInternalError):
    hvd.allreduce(torch.ones(1), name="after")  # it stays broken, and says so at once
hvd.shutdown()
