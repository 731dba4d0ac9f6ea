// What one rank's listen() hands to another rank's connect(), through NCCL.
#pragma once

#include <cstdint>
#include <type_traits>

#include "abi/nccl.h"
#include "common/sha256.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {

// Changes with every change of what is on the wire.
constexpr uint64_t kMagic = 0x324e43524f434343;  // "CCCORCN2" in memory

struct Handle {
  uint64_t magic;
  Digest secret;     // random: only who got it from NCCL may connect, and it does not travel again (handshake.h)
  uint32_t streams;  // besides the lead socket
  uint32_t reserved;
  Address address;
};
static_assert(sizeof(Handle) <= kHandleBytes && std::is_trivially_copyable_v<Handle>);

}  // namespace ccore::nccl
