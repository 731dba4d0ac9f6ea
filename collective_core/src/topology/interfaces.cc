#include "topology/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>

#include "common/error.h"

namespace ccore {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool link_local(const Address& address) {
  return address.family == AF_INET6 && address.host[0] == 0xfe && (address.host[1] & 0xc0) == 0x80;
}

// Without those that have no carrier, if others have one.
std::vector<const Interface*> connected(std::vector<const Interface*> fitting) {
  const auto rest =
      std::stable_partition(fitting.begin(), fitting.end(), [](const Interface* one) { return one->running; });
  if (rest != fitting.begin()) fitting.erase(rest, fitting.end());
  return fitting;
}

const Interface* first_of_family(const std::vector<const Interface*>& fitting) {
  for (const Interface* one : fitting) {
    const bool has_v4 = std::any_of(fitting.begin(), fitting.end(), [&](const Interface* other) {
      return other->name == one->name && other->address.family == AF_INET;
    });
    if (!has_v4 || one->address.family == AF_INET) return one;
  }
  return nullptr;
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("getifaddrs");
  std::vector<Interface> found;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP)) continue;
    const Address address = address_from(at->ifa_addr);
    if (address.family != 0 && !link_local(address)) {
      found.push_back(Interface{at->ifa_name, address, (at->ifa_flags & IFF_RUNNING) != 0});
    }
  }
  freeifaddrs(list);
  return found;
}

namespace {

const Interface& choose_interface(const std::vector<Interface>& all, const std::string& selector) {
  std::vector<const Interface*> fitting;
  if (selector.empty()) {
    for (const Interface& one : all) {
      const bool bridge = starts_with(one.name, "docker") || starts_with(one.name, "virbr") ||
                          starts_with(one.name, "br-") || starts_with(one.name, "veth");
      if (!is_loopback(one.address) && !bridge) fitting.push_back(&one);
    }
    fitting = connected(fitting);
    if (fitting.empty()) {
      for (const Interface& one : all) {
        if (is_loopback(one.address)) fitting.push_back(&one);
      }
    }
  } else {
    const bool exclude = selector[0] == '^';
    const bool exact = selector.find('=') == (exclude ? 1u : 0u);
    const auto names = split(selector.substr((exclude ? 1u : 0u) + (exact ? 1u : 0u)));
    for (const Interface& one : all) {
      const bool listed = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return exact ? one.name == name : starts_with(one.name, name);
      });
      if (listed != exclude && !(exclude && is_loopback(one.address))) fitting.push_back(&one);
    }
  }
  const Interface* chosen = first_of_family(fitting);
  if (!chosen) {
    std::string known;
    for (const Interface& one : all) known += (known.empty() ? "" : ", ") + one.name + " " + host_text(one.address);
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                "no network interface with an address fits \"" + selector + "\"; this host has: " + known);
  }
  return *chosen;
}

}  // namespace

Address choose_address(const std::vector<Interface>& all, const std::string& selector) {
  return choose_interface(all, selector).address;
}

std::vector<Interface> choose_rails(const std::vector<Interface>& all, const std::string& selector) {
  if (selector.empty() || selector[0] == '^') return {choose_interface(all, selector)};
  const bool exact = selector[0] == '=';
  std::vector<Interface> rails;
  for (const std::string& name : split(selector.substr(exact ? 1 : 0))) {
    std::vector<const Interface*> fitting;
    for (const Interface& one : all) {
      const bool taken =
          std::any_of(rails.begin(), rails.end(), [&](const Interface& rail) { return rail.name == one.name; });
      if (!taken && (exact ? one.name == name : starts_with(one.name, name))) fitting.push_back(&one);
    }
    const Interface* first = first_of_family(fitting);
    if (first) rails.push_back(*first);
  }
  if (rails.empty()) return {choose_interface(all, selector)};  // which says what there is
  return rails;
}

}  // namespace ccore
