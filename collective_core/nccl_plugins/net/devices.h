// The network interfaces that NCCL sees as devices.
#pragma once

#include <string>
#include <vector>

#include "transport/tcp/socket.h"

namespace ccore::nccl {

struct Device {
  std::string name;
  Address address;
  std::string pci_path;  // in /sys; empty for an interface that is not a PCI device
  int speed_mbps = 0;
};

struct NamedAddress {
  std::string name;
  Address address;
};

// Running interfaces with an address, except the IPv6 loopback address.
std::vector<NamedAddress> running_interfaces();

// The first address of each interface that `selector` names, in NCCL's syntax: a comma list of prefixes, "=" before it
// for exact names, "^" before both for exclusion. family: AF_INET, AF_INET6, or 0 for both.
std::vector<NamedAddress> select(const std::vector<NamedAddress>& all, const std::string& selector, int family);

// By CCORE_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, else NCCL's own preference: InfiniBand's interfaces, then all but
// those of containers and the loopback. NCCL_SOCKET_FAMILY limits it to AF_INET or AF_INET6. speed_mbps: for every device, 0 for the speed that the kernel reports.
// Throws ccore::Error if nothing fits.
std::vector<Device> find_devices(int speed_mbps);

}  // namespace ccore::nccl
