#include "rendezvous/unique_id.h"

#include <cstring>

#include "common/env.h"
#include "common/error.h"
#include "rendezvous/root.h"
#include "topology/interfaces.h"

namespace ccore {
namespace {

constexpr uint32_t kMagic = 0x44494343;  // "CCID"

struct Layout {
  uint32_t magic = kMagic;
  uint32_t version = 1;
  Address address;
  Digest secret{};
};
static_assert(sizeof(Layout) <= CC_UNIQUE_ID_BYTES, "the id must hold address and secret");

Address own_address() {
  const std::string fixed = env_text("CCORE_SOCKET_ADDR");
  return fixed.empty() ? choose_address(interfaces(), env_text("CCORE_SOCKET_IFNAME")) : resolve(fixed, 0);
}

// Debian and Ubuntu give the host's own name an address of the loopback (127.0.1.1), where the ranks of other hosts, for
// whom the name stands for another address, would find no one.
bool is_own_name(const std::string& host, const Address& found) {
  return is_loopback(found) && host_text(found) != host && host.compare(0, 9, "localhost") != 0;
}

Address every_address(const Address& like) {
  Address every;
  every.family = like.family;
  every.port = like.port;
  return every;
}

}  // namespace

cc_unique_id encode(const UniqueId& id) {
  Layout layout;
  layout.address = id.address;
  layout.secret = id.secret;
  cc_unique_id bytes{};
  std::memcpy(bytes.bytes, &layout, sizeof layout);
  return bytes;
}

UniqueId decode(const cc_unique_id& bytes) {
  Layout layout;
  std::memcpy(&layout, bytes.bytes, sizeof layout);
  if (layout.magic != kMagic || layout.version != 1 || layout.address.port == 0) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "this is not a unique id of this version of collective_core");
  }
  return UniqueId{layout.address, layout.secret};
}

UniqueId make_unique_id() { return make_unique_id(own_address()); }

UniqueId make_unique_id(Address address) {
  UniqueId id;
  id.address = address;
  id.address.port = 0;
  random_bytes(id.secret.data(), id.secret.size());
  UniqueFd listener = listen_on(id.address, false);
  id.address.port = local_address(listener.get()).port;
  start_root(std::move(listener), id.secret);
  return id;
}

UniqueId unique_id_at(const std::string& host, int port, const std::string& secret_text, bool is_root) {
  if (port < 1 || port > 65535) throw Error(CC_ERROR_INVALID_ARGUMENT, "the port must be from 1 to 65535");
  UniqueId id;
  id.address = resolve(host, port);
  const bool own_name = is_own_name(host, id.address);
  if (own_name) {
    id.address = own_address();
    id.address.port = static_cast<uint16_t>(port);
  }
  const std::string seed = "collective_core job " + secret_text;
  id.secret = sha256(seed.data(), seed.size());
  if (is_root) {
    try {
      start_root(listen_on(own_name ? every_address(id.address) : id.address, true), id.secret);
    } catch (const Error& error) {
      throw Error(error.code(), std::string(error.what()) +
                                    " (a second rank 0, another job on this port, or not an address of this host?)");
    }
  }
  return id;
}

}  // namespace ccore
