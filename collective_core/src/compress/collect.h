// The one pass over all elements that top-k needs: adds, writes the sum, and picks out what is large.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/simd.h"

namespace ccore {

// What was picked out so far, in order; the arrays have room for kCollectSlack more than a pass can pick.
struct Collected {
  float* values;
  uint32_t* indices;
  size_t found;
};
constexpr size_t kCollectSlack = 16;  // a vector is written whole, however few of its elements count

// For i in [0, count): acc[i] = a[i] + b[i], or a[i] where b is null; if magnitude(acc[i]) >= floor, it is picked out
// as element base + i. floor < 2^31. Returns the largest magnitude. No alignment is required.
// stream: acc is too large for the caches, so write past them; what reads it on another thread needs a fence that
// end_of_streaming() gives.
using CollectFunction = uint32_t (*)(const float* a, const float* b, size_t count, uint32_t base, uint32_t floor,
                                     float* acc, Collected* out);
CollectFunction collect_function(SimdLevel level, bool stream);
// From so many elements on it is: 4 MiB, more than a core's own caches hold.
constexpr size_t kLeastStreamed = size_t{1} << 20;
// Whether the streaming version may write there.
bool can_stream(const float* acc);
void end_of_streaming();
// Copies `count` floats past the caches where `to` allows it.
void stream_copy(const float* from, size_t count, void* to);

}  // namespace ccore
