"""The program ``device_perf``: what each GPU of a node reaches alone, and what each pair of them exchanges."""
