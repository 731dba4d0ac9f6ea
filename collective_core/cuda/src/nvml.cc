#include "nvml.h"

#include <dlfcn.h>

#include <cstdio>

namespace ccore_cuda {
namespace {

// Of nvml.h, which not every build has.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
};
using Device = struct NvmlDevice*;
constexpr int kSuccess = 0;
constexpr unsigned int kMostLinks = 18;
constexpr unsigned int kEnabled = 1;
// What is at the other end. A virtual machine may hide the switches: their links then end at an unknown device.
enum Remote : unsigned int { kGpu = 0, kProcessor = 1 };

class Library {
 public:
  Library() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int (*)()>("nvmlInit_v2");
    ready_ = init && init() == kSuccess;
    by_bus = function<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
    state = function<int (*)(Device, unsigned int, unsigned int*)>("nvmlDeviceGetNvLinkState");
    remote = function<int (*)(Device, unsigned int, PciInfo*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2");
    remote_kind = function<int (*)(Device, unsigned int, unsigned int*)>("nvmlDeviceGetNvLinkRemoteDeviceType");
  }
  ~Library() {
    const auto shutdown = function<int (*)()>("nvmlShutdown");
    if (ready_ && shutdown) shutdown();
    if (library_) dlclose(library_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_usable() const { return ready_ && by_bus && state && remote && remote_kind; }

  int (*by_bus)(const char*, Device*) = nullptr;
  int (*state)(Device, unsigned int, unsigned int*) = nullptr;
  int (*remote)(Device, unsigned int, PciInfo*) = nullptr;
  int (*remote_kind)(Device, unsigned int, unsigned int*) = nullptr;

 private:
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(library_ ? dlsym(library_, name) : nullptr);
  }

  void* const library_;
  bool ready_ = false;
};

}  // namespace

OwnNvlinks read_nvlinks(uint64_t bus, const std::vector<uint64_t>& peers) {
  OwnNvlinks own{false, 0, std::vector<int>(peers.size())};
  const Library nvml;
  char name[32];
  std::snprintf(name, sizeof name, "%08x:%02x:%02x.0", static_cast<unsigned>(bus >> 16),
                static_cast<unsigned>(bus >> 8 & 0xff), static_cast<unsigned>(bus & 0xff));
  Device device = nullptr;
  if (!nvml.is_usable() || nvml.by_bus(name, &device) != kSuccess) return own;
  own.is_known = true;
  for (unsigned int link = 0; link < kMostLinks; ++link) {
    unsigned int state = 0, kind = 0;
    PciInfo info{};
    if (nvml.state(device, link, &state) != kSuccess || state != kEnabled) continue;
    if (nvml.remote_kind(device, link, &kind) != kSuccess || kind == kProcessor) continue;
    if (kind != kGpu) {
      ++own.to_switches;
      continue;
    }
    if (nvml.remote(device, link, &info) != kSuccess) continue;
    const uint64_t address = uint64_t{info.domain} << 16 | uint64_t{info.bus & 0xff} << 8 | (info.device & 0xff);
    for (size_t peer = 0; peer < peers.size(); ++peer) own.to_peers[peer] += peers[peer] == address ? 1 : 0;
  }
  return own;
}

}  // namespace ccore_cuda
