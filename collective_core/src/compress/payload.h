// What one rank sends of its shard: k elements with their places, encoded. All payloads of an operation have the
// same size, which follows from k alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_core/collective_core.h"

namespace ccore {

// Followed by k indices (uint32, ascending) and k values (f32 or f16), all in the byte order of the machine.
struct PayloadHeader {
  uint32_t nonfinite;  // 1: the sender met an infinity or NaN; the rest of the payload has no meaning
  uint32_t kept;
};

constexpr float kLargestHalf = 65504.0f;

// values: CC_FLOAT32 or CC_FLOAT16.
size_t payload_bytes(size_t kept, cc_dtype values);

// Writes the elements acc[indices[i]] and leaves in acc what the receivers do not get of them: nothing with
// f32 values; the rounding error with f16, and of magnitudes above 65504 all that is above it.
void encode(float* acc, const std::vector<uint32_t>& indices, cc_dtype values, std::byte* payload);
void encode_nonfinite(size_t kept, cc_dtype values, std::byte* payload);
bool is_nonfinite(const std::byte* payload);

// out[0..count) of type dtype = the sum of the payloads, added in f32 in their order, divided by divisor once.
// Throws CC_ERROR_INTERNAL for a payload whose indices do not ascend inside count.
void decode_sum(const std::vector<const std::byte*>& payloads, size_t kept, cc_dtype values, unsigned divisor,
                cc_dtype dtype, size_t count, void* out);

}  // namespace ccore
