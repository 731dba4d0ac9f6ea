#include "transport/tcp/stream_settings.h"

#include <algorithm>

#include "common/env.h"
#include "transport/tcp/frame.h"

namespace ccore {
namespace {

constexpr int kFrameBytes = 128 * 1024;
// One flow is often held to a part of the line rate (by the provider of a cloud, or by the core that serves it), but
// each needs cycles of its own.
constexpr int kCoresPerStream = 4;
constexpr int kMostDefaultStreams = 4;

}  // namespace

StreamWish stream_wish_from_env() {
  StreamWish wish;
  wish.streams = static_cast<int32_t>(env_integer("CCORE_TCP_STREAMS", 0, 0, kMostStreams));
  wish.frame_bytes =
      static_cast<int32_t>(env_integer("CCORE_TCP_FRAME_BYTES", kFrameBytes, kLeastFrameBytes, kMostFrameBytes));
  return wish;
}

StreamSettings plan_streams(const StreamWish& wish, int cores_per_rank, bool same_host, int rails) {
  int streams = wish.streams;
  if (streams == 0) {
    streams = same_host ? 1 : std::max(1, std::min(kMostDefaultStreams, cores_per_rank / kCoresPerStream));
  }
  return StreamSettings{std::max(streams, rails), wish.frame_bytes};
}

}  // namespace ccore
