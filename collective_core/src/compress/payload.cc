#include "compress/payload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/dtype.h"
#include "common/error.h"
#include "compress/widen.h"
#include "reduce/half.h"
#include "reduce/unaligned.h"

namespace ccore {
namespace {

const std::byte* values_of(const std::byte* payload, size_t kept) {
  return payload + sizeof(PayloadHeader) + kept * sizeof(uint32_t);
}

void write_header(uint32_t nonfinite, size_t kept, std::byte* payload) {
  const PayloadHeader header{nonfinite, static_cast<uint32_t>(kept)};
  std::memcpy(payload, &header, sizeof header);
}

// Walks through the elements of one payload.
class Reader {
 public:
  Reader(const std::byte* payload, size_t kept, cc_dtype values, size_t count)
      : indices_(payload + sizeof(PayloadHeader)),
        values_(values_of(payload, kept)),
        kept_(kept),
        half_(values == CC_FLOAT16),
        count_(count) {}

  // Adds the elements below `end` to sums, which begins at element `begin` of the shard.
  void add_until(size_t begin, size_t end, float* sums) {
    while (next_ < kept_) {
      const size_t index = load<uint32_t>(indices_, next_);
      if (index < least_ || index >= count_) {
        throw Error(CC_ERROR_INTERNAL, "an index of a compressed vector is out of order or out of range");
      }
      if (index >= end) return;
      sums[index - begin] += half_ ? f16_to_f32(load<uint16_t>(values_, next_)) : load<float>(values_, next_);
      least_ = index + 1;
      ++next_;
    }
  }

 private:
  const std::byte* indices_;
  const std::byte* values_;
  size_t kept_;
  bool half_;
  size_t count_;
  size_t next_ = 0;
  size_t least_ = 0;
};

}  // namespace

size_t payload_bytes(size_t kept, cc_dtype values) {
  return sizeof(PayloadHeader) + kept * (sizeof(uint32_t) + dtype_size(values));
}

void encode(float* acc, const std::vector<uint32_t>& indices, cc_dtype values, std::byte* payload) {
  const size_t kept = indices.size();
  write_header(0, kept, payload);
  std::memcpy(payload + sizeof(PayloadHeader), indices.data(), kept * sizeof(uint32_t));
  std::byte* out = payload + sizeof(PayloadHeader) + kept * sizeof(uint32_t);
  for (size_t i = 0; i < kept; ++i) {
    float& value = acc[indices[i]];
    if (values == CC_FLOAT16) {
      const uint16_t sent = f32_to_f16(std::clamp(value, -kLargestHalf, kLargestHalf));
      store(out, i, sent);
      value -= f16_to_f32(sent);
    } else {
      store(out, i, value);
      value = 0;
    }
  }
}

void encode_nonfinite(size_t kept, cc_dtype values, std::byte* payload) {
  std::memset(payload, 0, payload_bytes(kept, values));
  write_header(1, kept, payload);
}

bool is_nonfinite(const std::byte* payload) {
  PayloadHeader header;
  std::memcpy(&header, payload, sizeof header);
  return header.nonfinite != 0;
}

void decode_sum(const std::vector<const std::byte*>& payloads, size_t kept, cc_dtype values, unsigned divisor,
                cc_dtype dtype, size_t count, void* out) {
  std::vector<Reader> readers;
  for (const std::byte* payload : payloads) readers.emplace_back(payload, kept, values, count);
  // A block at a time, in the first-level cache: cleared, added to, divided, and written once.
  constexpr size_t kBlock = 2048;
  std::array<float, kBlock> sums;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    std::fill_n(sums.begin(), n, 0.0f);
    for (Reader& reader : readers) reader.add_until(begin, begin + n, sums.data());
    if (divisor > 1) {
      for (size_t i = 0; i < n; ++i) sums[i] /= static_cast<float>(divisor);
    }
    narrow(sums.data(), n, dtype, static_cast<std::byte*>(out) + begin * dtype_size(dtype));
  }
}

}  // namespace ccore
