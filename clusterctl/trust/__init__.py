"""What a run proves: NCCL's log, GPUDirect, links, the expected bandwidth, slow ranks."""
