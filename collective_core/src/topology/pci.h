// Where devices are on the buses of this host, from sysfs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ccore {

constexpr const char* kSysfs = "/sys";  // of this host

struct PciPlace {
  std::string address;  // "0000:18:00.0"
  int numa_node = -1;   // -1: unknown
  // From the host bridge ("pci0000:15") over the bridges to the device itself.
  std::vector<std::string> path;
};

// `address` in any case, with or without the domain's leading zeros. sysfs: "/sys", or a tree that stands for it.
std::optional<PciPlace> pci_place(const std::string& sysfs, const std::string& address);

// What a transfer between two devices passes; the names are those of `nvidia-smi topo -m`.
enum class PciDistance {
  same,      // "X": they are one
  one_switch,   // "PIX"
  switches,  // "PXB": several
  host,      // "PHB": the host bridge of both
  numa,      // "NODE": host bridges of one NUMA node
  system,    // "SYS": the connection between NUMA nodes
};
PciDistance distance(const PciPlace& one, const PciPlace& other);
const char* name_of(PciDistance distance);

struct Nic {
  std::string name;  // "eth0", "mlx5_0"
  bool is_rdma = false;
  PciPlace place;
};
// Network interfaces and RDMA devices that are PCI devices, by name.
std::vector<Nic> nics(const std::string& sysfs);

// By interface: whether it is one of the nearest to the GPU. All of them are if the place of one is unknown: a bond, a
// VLAN or a virtual interface is not a PCI device.
std::vector<bool> nearest_to(const PciPlace& gpu, const std::vector<std::string>& interfaces,
                             const std::vector<Nic>& nics);

// The GPU of a rank, and the NICs of its host; without a GPU neither.
struct Surroundings {
  std::optional<PciPlace> gpu;
  std::vector<Nic> nics;
};
Surroundings surroundings(const std::string& sysfs, const std::string& gpu_address);
// The place in a list of devices, not empty, of the one that a rank takes: those nearest to its GPU are dealt out by local
// rank, without a GPU all of them.
size_t dealt_out(const std::vector<std::string>& devices, int local_rank, const Surroundings& around);

}  // namespace ccore
