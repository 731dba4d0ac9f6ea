// What is inside a cc_unique_id: where the rendezvous listens, and the secret.
#pragma once

#include <string>

#include "collective_core/collective_core.h"
#include "common/sha256.h"
#include "transport/tcp/socket.h"

namespace ccore {

struct UniqueId {
  Address address;
  Digest secret{};
};

cc_unique_id encode(const UniqueId& id);
// Throws CC_ERROR_INVALID_ARGUMENT for bytes that encode() did not make.
UniqueId decode(const cc_unique_id& bytes);

// A random secret; starts the root of the rendezvous in this process.
UniqueId make_unique_id();
// The same, on that address of this host; its port does not count.
UniqueId make_unique_id(Address address);
// The secret is derived from a text; starts the root if is_root.
UniqueId unique_id_at(const std::string& host, int port, const std::string& secret_text, bool is_root);

}  // namespace ccore
