"""Programs that run on the nodes. They import torch and the standard library, never clusterctl."""
