// A frame of a striped connection: a piece of one byte stream, with its place in it. Any frame may take any socket;
// on each socket the offsets only grow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/seal.h"

namespace ccore {

// Travels before the bytes of the frame.
struct FrameHeader {
  uint32_t magic = 0x52464343;  // "CCFR"
  uint32_t length = 0;          // bytes that follow, at least 1
  uint64_t offset = 0;          // of the first byte in the stream
  uint64_t tag = 0;             // of what stands before it, and of how many frames went before on this socket
};
static_assert(sizeof(FrameHeader) == 24, "part of the wire format");

constexpr size_t kLeastFrameBytes = 1024;
constexpr size_t kMostFrameBytes = 4 * 1024 * 1024;
// How far ahead of the receiver's place in the stream a frame can begin: more than the buffers of all sockets hold.
constexpr uint64_t kMostAheadBytes = uint64_t{1} << 32;

// What the next frame on a socket may be.
struct FrameRules {
  uint64_t least_offset = 0;
  uint64_t most_offset = 0;
  uint32_t most_length = 0;
};

// The tag that the header needs to be the next one of a socket.
uint64_t tag_of(const FrameHeader& header, const FrameSeal& seal);
// Throws NotAuthentic for what is not the peer's next frame, before any of it is believed; and CC_ERROR_REMOTE, with
// the peer in words and what is wrong, for anything that breaks the rules.
FrameHeader parse_frame(const std::array<std::byte, sizeof(FrameHeader)>& bytes, const FrameRules& rules,
                        const Seals& seals);

}  // namespace ccore
