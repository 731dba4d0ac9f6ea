#include "compress/payload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/dtype.h"
#include "common/error.h"
#include "compress/collect.h"
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

constexpr size_t kBatch = 256;  // of values that are converted at once, in the first-level cache

// Part of the sum: all zero but for the elements that are marked.
class SumBlock {
 public:
  static constexpr size_t kCount = 2048;

  void add(size_t place, float value) {
    sums_[place] += value;
    touched_[place / 64] |= uint64_t{1} << place % 64;
  }
  void divide_by(unsigned divisor) {
    for_each_touched([&](float& sum) { sum /= static_cast<float>(divisor); });
  }
  void clear() {
    for_each_touched([](float& sum) { sum = 0; });
    touched_.fill(0);
  }
  const float* data() const { return sums_.data(); }

 private:
  template <typename Visit>
  void for_each_touched(Visit visit) {
    for (size_t word = 0; word < touched_.size(); ++word) {
      for (uint64_t bits = touched_[word]; bits != 0; bits &= bits - 1) {
        visit(sums_[64 * word + static_cast<size_t>(__builtin_ctzll(bits))]);
      }
    }
  }

  alignas(64) std::array<float, kCount> sums_{};
  std::array<uint64_t, kCount / 64> touched_{};
};

// Walks through the elements of one payload.
class Reader {
 public:
  Reader(const std::byte* payload, size_t kept, cc_dtype values, size_t count)
      : indices_(payload + sizeof(PayloadHeader)),
        values_(values_of(payload, kept)),
        kept_(kept),
        half_(values == CC_FLOAT16),
        count_(count) {}

  // Adds the elements of [begin, end) to the block, which begins there.
  void add_until(size_t begin, size_t end, SumBlock* block) {
    size_t run;
    do {
      run = places_before(begin, end);
      const std::byte* from = values_ + next_ * (half_ ? sizeof(uint16_t) : sizeof(float));
      if (half_) {
        f16_to_f32(from, numbers_.data(), run);
      } else {
        std::memcpy(numbers_.data(), from, run * sizeof(float));
      }
      for (size_t i = 0; i < run; ++i) block->add(places_[i], numbers_[i]);
      next_ += run;
    } while (run == kBatch);
  }

 private:
  // The places in the block of the next elements below `end`, up to a batch of them; how many.
  size_t places_before(size_t begin, size_t end) {
    const size_t most = std::min(kBatch, kept_ - next_);
    for (size_t i = 0; i < most; ++i) {
      const size_t index = load<uint32_t>(indices_, next_ + i);
      if (index < least_ || index >= count_) {
        throw Error(CC_ERROR_INTERNAL, "an index of a compressed vector is out of order or out of range");
      }
      if (index >= end) return i;
      places_[i] = static_cast<uint32_t>(index - begin);
      least_ = index + 1;
    }
    return most;
  }

  const std::byte* indices_;
  const std::byte* values_;
  size_t kept_;
  bool half_;
  size_t count_;
  size_t next_ = 0;
  size_t least_ = 0;
  std::array<uint32_t, kBatch> places_;
  std::array<float, kBatch> numbers_;
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
  std::array<float, kBatch> numbers;
  std::array<float, kBatch> sent;
  for (size_t begin = 0; begin < kept; begin += kBatch) {
    const size_t n = std::min(kBatch, kept - begin);
    const uint32_t* places = indices.data() + begin;
    for (size_t i = 0; i < n; ++i) numbers[i] = acc[places[i]];
    if (values == CC_FLOAT16) {
      for (size_t i = 0; i < n; ++i) sent[i] = std::clamp(numbers[i], -kLargestHalf, kLargestHalf);
      std::byte* halves = out + begin * sizeof(uint16_t);
      f32_to_f16(sent.data(), halves, n);
      f16_to_f32(halves, sent.data(), n);
      for (size_t i = 0; i < n; ++i) acc[places[i]] = numbers[i] - sent[i];
    } else {
      std::memcpy(out + begin * sizeof(float), numbers.data(), n * sizeof(float));
      for (size_t i = 0; i < n; ++i) acc[places[i]] = 0;
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
  // A block at a time, in the first-level cache: added to, divided, written once, and cleared where it was touched.
  const bool stream = dtype == CC_FLOAT32 && count >= kLeastStreamed;
  SumBlock block;
  for (size_t begin = 0; begin < count; begin += SumBlock::kCount) {
    const size_t n = std::min(SumBlock::kCount, count - begin);
    for (Reader& reader : readers) reader.add_until(begin, begin + n, &block);
    if (divisor > 1) block.divide_by(divisor);
    std::byte* to = static_cast<std::byte*>(out) + begin * dtype_size(dtype);
    if (stream) {
      stream_copy(block.data(), n, to);
    } else {
      narrow(block.data(), n, dtype, to);
    }
    block.clear();
  }
  if (stream) end_of_streaming();
}

}  // namespace ccore
