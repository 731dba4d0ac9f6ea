#include "net/devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "common/env.h"
#include "common/error.h"

namespace ccore::nccl {
namespace {

// What NCCL assumes of an interface whose speed the kernel does not report.
constexpr int kUnknownSpeedMbps = 10000;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name = name.substr(0, name.find(':'));  // NCCL allows a port behind a name
    if (!name.empty()) names.push_back(name);
    begin = end + 1;
  }
  return names;
}

std::string pci_path_of(const std::string& name) {
  const std::string link = "/sys/class/net/" + name + "/device";
  const std::unique_ptr<char, void (*)(void*)> path(realpath(link.c_str(), nullptr), std::free);
  return path ? path.get() : "";
}

int speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int speed = 0;
  file >> speed;
  return file && speed > 0 ? speed : kUnknownSpeedMbps;
}

}  // namespace

std::vector<NamedAddress> running_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("getifaddrs");
  std::vector<NamedAddress> found;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_RUNNING)) continue;
    const Address address = address_from(at->ifa_addr);
    if (address.family == 0 || (address.family == AF_INET6 && is_loopback(address))) continue;
    found.push_back(NamedAddress{at->ifa_name, address});
  }
  freeifaddrs(list);
  return found;
}

std::vector<NamedAddress> select(const std::vector<NamedAddress>& all, const std::string& selector, int family) {
  const bool exclude = !selector.empty() && selector[0] == '^';
  const bool exact = selector.size() > (exclude ? 1u : 0u) && selector[exclude ? 1 : 0] == '=';
  const auto names = names_of(selector.substr((exclude ? 1u : 0u) + (exact ? 1u : 0u)));
  std::vector<NamedAddress> chosen;
  for (const NamedAddress& one : all) {
    if (family != 0 && one.address.family != family) continue;
    const bool listed = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return exact ? one.name == name : one.name.compare(0, name.size(), name) == 0;
    });
    const bool known =
        std::any_of(chosen.begin(), chosen.end(), [&](const NamedAddress& other) { return other.name == one.name; });
    if (listed != exclude && !known) chosen.push_back(one);
  }
  return chosen;
}

std::vector<Device> find_devices(int speed_mbps) {
  const std::string family_text = variable("NCCL_SOCKET_FAMILY");
  const int family = family_text == "AF_INET" ? AF_INET : family_text == "AF_INET6" ? AF_INET6 : 0;
  const std::string own = env_text("CCORE_SOCKET_IFNAME");
  const std::string wanted = own.empty() ? variable("NCCL_SOCKET_IFNAME") : own;
  const auto all = running_interfaces();
  std::vector<NamedAddress> chosen;
  if (wanted.empty()) {
    for (const char* preference : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
      if (chosen.empty()) chosen = select(all, preference, family);
    }
  } else {
    chosen = select(all, wanted, family);
  }
  if (chosen.empty()) {
    std::string known;
    for (const NamedAddress& one : all) known += (known.empty() ? "" : ", ") + one.name + " " + host_text(one.address);
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s%s%s fits no running interface; this host has: %s",
                       own.empty() ? "NCCL_SOCKET_IFNAME" : "CCORE_SOCKET_IFNAME", wanted.c_str(),
                       family ? " with NCCL_SOCKET_FAMILY=" : "", family ? family_text.c_str() : "", known.c_str()));
  }
  std::vector<Device> devices;
  for (const NamedAddress& one : chosen) {
    devices.push_back(
        Device{one.name, one.address, pci_path_of(one.name), speed_mbps > 0 ? speed_mbps : speed_of(one.name)});
  }
  return devices;
}

}  // namespace ccore::nccl
