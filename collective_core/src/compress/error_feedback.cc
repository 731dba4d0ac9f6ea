#include "compress/error_feedback.h"

#include <algorithm>
#include <array>

#include "common/dtype.h"
#include "compress/magnitude.h"
#include "compress/mstopk.h"
#include "compress/payload.h"
#include "compress/widen.h"

namespace ccore {

bool accumulate(const void* gradient, cc_dtype dtype, const float* residual, size_t count,
                const TopkSettings& settings, CompressScratch* scratch, float* acc) {
  const auto* input = static_cast<const std::byte*>(gradient);
  const size_t element = dtype_size(dtype);
  Candidates* candidates = settings.method == CC_TOPK_EXACT ? &scratch->candidates : nullptr;
  if (candidates) {
    candidates->guess(count, kept_of(count, settings.ratio), [&](size_t i) {
      float value;
      widen(input + i * element, 1, dtype, &value);
      return residual ? value + residual[i] : value;
    });
  }
  // A block at a time, so that the sum is still in the first-level cache when the candidates are looked for.
  constexpr size_t kBlock = 2048;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    float* sums = acc + begin;
    widen(input + begin * element, n, dtype, sums);
    if (residual) {
      for (size_t i = 0; i < n; ++i) sums[i] += residual[begin + i];
    }
    uint32_t largest = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(sums[i]));
    if (largest >= kInfiniteMagnitude) return false;
    if (candidates) candidates->feed(sums, begin, n);
  }
  return true;
}

void compress(const TopkSettings& settings, size_t count, CompressScratch* scratch, float* acc,
              std::byte* payload) {
  const size_t kept = kept_of(count, settings.ratio);
  scratch->indices.resize(kept);
  if (kept > 0 && settings.method == CC_TOPK_MSTOPK) {
    select_mstopk(acc, count, kept, settings.samplings, scratch->indices.data());
  } else if (kept > 0) {
    scratch->candidates.select(acc, count, kept, scratch->indices.data());
  }
  encode(acc, scratch->indices, settings.values, payload);
}

}  // namespace ccore
