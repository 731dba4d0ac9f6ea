"""What the backend `ccore` of torch.distributed is made of; `collective_core.torch_backend` puts it together."""

BACKEND_NAME = "ccore"
