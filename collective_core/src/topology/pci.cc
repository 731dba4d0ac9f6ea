#include "topology/pci.h"

#include <dirent.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <fstream>
#include <memory>

namespace ccore {
namespace {

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : "";
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  while (open) {
    const dirent* entry = readdir(open.get());
    if (!entry) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

int number_in(const std::string& file) {
  std::ifstream stream(file);
  int number = -1;
  stream >> number;
  return stream ? number : -1;
}

bool is_pci_address(const std::string& name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

// "00000000:18:00.0", as NVML writes it, is "0000:18:00.0" in sysfs.
std::string in_sysfs(std::string address) {
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  while (address.size() > 12 && address[0] == '0') address.erase(0, 1);
  return address;
}

// The device of a directory in sysfs; a function of a virtual bus, such as virtio, is that of its PCI device.
std::optional<PciPlace> place_of(const std::string& directory) {
  const std::string path = real_path(directory);
  PciPlace place;
  size_t device_end = 0;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const bool is_root = name.compare(0, 3, "pci") == 0 && name.size() == 10;
    if (is_root) place.path.clear();
    if (is_root || (is_pci_address(name) && !place.path.empty())) {
      place.path.push_back(name);
      device_end = end;
    }
    begin = end + 1;
  }
  if (place.path.size() < 2) return std::nullopt;
  place.address = place.path.back();
  place.numa_node = number_in(path.substr(0, device_end) + "/numa_node");
  return place;
}

}  // namespace

std::optional<PciPlace> pci_place(const std::string& sysfs, const std::string& address) {
  const std::string name = in_sysfs(address);
  if (!is_pci_address(name)) return std::nullopt;
  return place_of(sysfs + "/bus/pci/devices/" + name);
}

PciDistance distance(const PciPlace& one, const PciPlace& other) {
  if (one.address == other.address) return PciDistance::same;
  const size_t shorter = std::min(one.path.size(), other.path.size());
  size_t common = 0;
  while (common < shorter && one.path[common] == other.path[common]) ++common;
  if (common == 0) {
    return one.numa_node >= 0 && one.numa_node == other.numa_node ? PciDistance::numa : PciDistance::system;
  }
  if (common == 1) return PciDistance::host;
  // Below a switch, each device is behind one port of it.
  const bool is_near = one.path.size() - common <= 2 && other.path.size() - common <= 2;
  return is_near ? PciDistance::one_switch : PciDistance::switches;
}

const char* name_of(PciDistance distance) {
  switch (distance) {
    case PciDistance::same:
      return "X";
    case PciDistance::one_switch:
      return "PIX";
    case PciDistance::switches:
      return "PXB";
    case PciDistance::host:
      return "PHB";
    case PciDistance::numa:
      return "NODE";
    case PciDistance::system:
      break;
  }
  return "SYS";
}

std::vector<Nic> nics(const std::string& sysfs) {
  std::vector<Nic> found;
  for (const char* kind : {"net", "infiniband"}) {
    const std::string directory = sysfs + "/class/" + kind;
    for (const std::string& name : names_in(directory)) {
      const std::optional<PciPlace> place = place_of(directory + "/" + name + "/device");
      if (place) found.push_back(Nic{name, kind == std::string("infiniband"), *place});
    }
  }
  return found;
}

std::vector<bool> nearest_to(const PciPlace& gpu, const std::vector<std::string>& interfaces,
                             const std::vector<Nic>& nics) {
  std::vector<PciDistance> distances;
  for (const std::string& name : interfaces) {
    const auto nic = std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == name; });
    if (nic == nics.end()) return std::vector<bool>(interfaces.size(), true);
    distances.push_back(distance(gpu, nic->place));
  }
  std::vector<bool> nearest;
  for (const PciDistance one : distances) {
    nearest.push_back(one == *std::min_element(distances.begin(), distances.end()));
  }
  return nearest;
}

Surroundings surroundings(const std::string& sysfs, const std::string& gpu_address) {
  const std::optional<PciPlace> gpu = pci_place(sysfs, gpu_address);
  return {gpu, gpu ? nics(sysfs) : std::vector<Nic>()};
}

size_t dealt_out(const std::vector<std::string>& devices, int local_rank, const Surroundings& around) {
  const std::vector<bool> near =
      around.gpu ? nearest_to(*around.gpu, devices, around.nics) : std::vector<bool>(devices.size(), true);
  std::vector<size_t> candidates;
  for (size_t at = 0; at < devices.size(); ++at) {
    if (near[at]) candidates.push_back(at);
  }
  return candidates[static_cast<size_t>(local_rank) % candidates.size()];
}

}  // namespace ccore
