#include "topology/nvlinks.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

namespace ccore {
namespace {

// Of nvml.h: the part that is needed, unchanged since driver 418.
using Device = void*;
constexpr unsigned kMostLinks = 18;
constexpr unsigned kEnabled = 1;
constexpr unsigned kRemoteIsGpu = 0;
constexpr unsigned kRemoteIsSwitch = 2;
struct PciInfo {
  char legacy_address[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char address[32];
};

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_address)(const char*, Device*) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*remote_type)(Device, unsigned, unsigned*) = nullptr;
  int (*remote_address)(Device, unsigned, PciInfo*) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// The library stays loaded: programs with a GPU have it anyway.
const Nvml* nvml() {
  static Nvml found;
  static const bool is_complete = [] {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    return library && find(library, "nvmlInit_v2", &found.init) && find(library, "nvmlShutdown", &found.shutdown) &&
           find(library, "nvmlDeviceGetHandleByPciBusId_v2", &found.by_address) &&
           find(library, "nvmlDeviceGetNvLinkState", &found.link_state) &&
           find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &found.remote_type) &&
           find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &found.remote_address);
  }();
  return is_complete ? &found : nullptr;
}

}  // namespace

std::optional<NvLinks> nvlinks(const std::string& pci_address) {
  const Nvml* const library = nvml();
  if (!library || library->init() != 0) return std::nullopt;
  std::optional<NvLinks> links;
  Device device = nullptr;
  if (library->by_address(pci_address.c_str(), &device) == 0) {
    links.emplace();
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned state = 0, type = 0;
      PciInfo remote{};
      if (library->link_state(device, link, &state) != 0 || state != kEnabled) continue;
      if (library->remote_type(device, link, &type) != 0) continue;
      if (type == kRemoteIsSwitch) ++links->to_switches;
      if (type == kRemoteIsGpu && library->remote_address(device, link, &remote) == 0) {
        std::string address(remote.address);
        std::transform(address.begin(), address.end(), address.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        while (address.size() > 12 && address[0] == '0') address.erase(0, 1);
        links->to_gpus.push_back(address);
      }
    }
  }
  library->shutdown();
  return links;
}

}  // namespace ccore
