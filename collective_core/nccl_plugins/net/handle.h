// What one rank's listen() hands to another rank's connect(), through NCCL, and how a socket introduces itself.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "abi/nccl.h"
#include "transport/tcp/socket.h"

namespace ccore::nccl {

// Changes with every change of what is on the wire.
constexpr uint64_t kMagic = 0x314e43524f434343;  // "CCCORCN1" in memory
using Token = std::array<unsigned char, 16>;

struct Handle {
  uint64_t magic;
  Token token;      // random: only who got it from NCCL may connect
  uint32_t streams;  // besides the lead socket
  uint32_t reserved;
  Address address;
};
static_assert(sizeof(Handle) <= kHandleBytes && std::is_trivially_copyable_v<Handle>);

struct Hello {
  uint64_t magic;
  Token token;
  uint64_t connection;  // random: equal for all sockets of a connection
  uint32_t index;       // of the socket; 0 is the lead socket
  uint32_t reserved;
};
static_assert(sizeof(Hello) == 40 && std::is_trivially_copyable_v<Hello>);

// Throws ccore::Error if the kernel has no random bytes.
void fill_random(void* data, size_t size);

}  // namespace ccore::nccl
