"""Programs that run on the nodes. They import torch or collective_core, never clusterctl."""
