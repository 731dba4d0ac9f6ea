"""What scripts for Alibaba's ACCL import as `torch_accl`: it registers the backend `accl`, which is ours.

`import torch_accl` means this module where `collective_core.aliases` is in effect.
"""

from __future__ import annotations

from collective_core.torch.registration import ACCL, register_as
from collective_core.torch_backend import create_process_group

register_as(ACCL, create_process_group)
