"""Requirements of RDMA: GPUDirect, PCIe ACS, ports, GIDs, userspace libraries."""
