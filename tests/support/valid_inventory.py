"""One valid inventory that uses many keys: what tests damage."""

from __future__ import annotations

import yaml

VALID = """\
version: 1
launcher: openmpi
defaults: {user: ubuntu, gpus: 8, socket_ifname: bond0, env: {NCCL_DEBUG: INFO, X: 3}}
groups:
  rack1: {nodes: "gpu[01-02]", requirements: {memlock: 5, acs: {gpu_devices: ["class:0302"]}}}
nodes:
  - name: gpu[01-04]
    address: 10.0.0.[1-4]
    requirements: {skip: [docker], peermem: {mechanism: auto}, rdma_link: {min_rate_gbps: 100.5}}
    container: {image: "img:1", devices: [/dev/infiniband], stack: null}
  - name: spare
    address: "fe80::1%eth0"
    port: 2222
    proxy_jump: me@jump:22
"""
TREE = yaml.safe_load(VALID)
