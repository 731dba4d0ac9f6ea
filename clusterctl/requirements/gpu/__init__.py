"""Requirements of GPUs: driver, persistence, NVSwitch's fabric manager, links."""
