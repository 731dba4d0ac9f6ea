// How the data between two ranks is spread over TCP connections.
#pragma once

#include <cstdint>

namespace ccore {

constexpr int kMostStreams = 16;
constexpr int kMostRails = 8;

// What one rank asks for; the ranks tell each other, and rank 0's wish counts.
struct StreamWish {
  int32_t streams = 0;      // CCORE_TCP_STREAMS; 0: as many as pay
  int32_t frame_bytes = 0;  // CCORE_TCP_FRAME_BYTES
};
// Throws CC_ERROR_INVALID_ARGUMENT for a value out of range.
StreamWish stream_wish_from_env();

struct StreamSettings {
  int streams = 1;
  int frame_bytes = 0;
};
// Between two ranks. cores_per_rank: of rank 0's host. same_host: the connection does not leave it.
StreamSettings plan_streams(const StreamWish& wish, int cores_per_rank, bool same_host, int rails);

}  // namespace ccore
