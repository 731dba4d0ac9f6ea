#include "compress/error_feedback.h"

#include <algorithm>
#include <array>

#include "common/dtype.h"
#include "compress/magnitude.h"
#include "compress/mstopk.h"
#include "compress/payload.h"
#include "compress/widen.h"

namespace ccore {
bool accumulate(const void* gradient, cc_dtype dtype, const float* residual, size_t count, const TopkSettings& settings,
                SimdLevel level, CompressScratch* scratch, float* acc) {
  const auto* input = static_cast<const std::byte*>(gradient);
  const size_t element = dtype_size(dtype);
  const auto sum_at = [&](size_t i) {
    float value;
    widen(input + i * element, 1, dtype, &value);
    return residual ? value + residual[i] : value;
  };
  const size_t wanted = settings.method == CC_TOPK_EXACT ? kept_of(count, settings.ratio) : 0;
  scratch->candidates.guess(count, wanted, sum_at);
  const bool stream = count >= kLeastStreamed && can_stream(acc);
  const CollectFunction collect = collect_function(level, stream);
  const bool in_place = dtype == CC_FLOAT32 && reinterpret_cast<uintptr_t>(gradient) % alignof(float) == 0;
  constexpr size_t kBlock = Candidates::kMostBlock;
  std::array<float, kBlock> widened;
  bool finite = true;
  for (size_t begin = 0; finite && begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    const float* values = widened.data();
    if (in_place) {
      values = static_cast<const float*>(gradient) + begin;
    } else {
      widen(input + begin * element, n, dtype, widened.data());
    }
    const uint32_t largest =
        scratch->candidates.add(collect, values, residual ? residual + begin : nullptr, begin, n, acc + begin);
    finite = largest < kInfiniteMagnitude;
  }
  if (stream) end_of_streaming();
  return finite;
}

void compress(const TopkSettings& settings, size_t count, CompressScratch* scratch, float* acc, std::byte* payload) {
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
