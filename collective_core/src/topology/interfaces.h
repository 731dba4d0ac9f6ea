// Which network address of this machine to use.
#pragma once

#include <string>
#include <vector>

#include "transport/tcp/socket.h"

namespace ccore {

struct Interface {
  std::string name;
  Address address;
  bool running = true;  // it has a carrier
};

// Interfaces that are up and have an address; IPv6 link-local addresses are left out.
std::vector<Interface> interfaces();

// Picks one of `all` by a selector in NCCL's form: a comma list of name prefixes, "=" before the list for
// exact names, "^" for exclusion. Empty: the first that is neither loopback nor a bridge of a container
// engine, of those with a carrier if there is one, else loopback. IPv4 goes before IPv6 on the same interface. Throws CC_ERROR_INVALID_ARGUMENT when
// nothing fits.
Address choose_address(const std::vector<Interface>& all, const std::string& selector);

// The interfaces over which data is spread: one for each name of a selector that lists several, without those that this
// host lacks; else only that of choose_address().
std::vector<Interface> choose_rails(const std::vector<Interface>& all, const std::string& selector);

}  // namespace ccore
