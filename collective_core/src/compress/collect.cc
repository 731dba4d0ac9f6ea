#include "compress/collect.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/caches.h"
#include "compress/magnitude.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ccore {
namespace {

void pick(float value, uint32_t index, Collected* out) {
  out->values[out->found] = value;
  out->indices[out->found] = index;
  ++out->found;
}

// Also the last elements of the wide versions.
uint32_t collect_scalar(const float* a, const float* b, size_t count, uint32_t base, uint32_t floor, float* acc,
                        Collected* out) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    acc[i] = b ? a[i] + b[i] : a[i];
    largest = std::max(largest, magnitude(acc[i]));
  }
  if (largest < floor) return largest;
  for_each_at_least(acc, count, floor, [&](size_t i) { pick(acc[i], base + static_cast<uint32_t>(i), out); });
  return largest;
}

#if defined(__x86_64__)

template <bool stream>
__attribute__((target("avx2"))) uint32_t collect_avx2(const float* a, const float* b, size_t count, uint32_t base,
                                                      uint32_t floor, float* acc, Collected* out) {
  const __m256i without_sign = _mm256_set1_epi32(static_cast<int>(kMagnitudeBits));
  // There is no >=; a floor of 0 makes this -1.
  const __m256i below = _mm256_set1_epi32(static_cast<int>(floor) - 1);
  __m256i largest = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 sum = _mm256_loadu_ps(a + i);
    if (b) sum = _mm256_add_ps(sum, _mm256_loadu_ps(b + i));
    if (stream) {
      _mm256_stream_ps(acc + i, sum);
    } else {
      _mm256_storeu_ps(acc + i, sum);
    }
    const __m256i key = _mm256_and_si256(_mm256_castps_si256(sum), without_sign);
    largest = _mm256_max_epi32(largest, key);
    auto hits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, below))));
    if (hits == 0) continue;
    std::array<float, 8> lanes;  // reading acc back would wait for a streamed line
    _mm256_storeu_ps(lanes.data(), sum);
    for (; hits != 0; hits &= hits - 1) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(hits));
      pick(lanes[lane], base + static_cast<uint32_t>(i) + lane, out);
    }
  }
  std::array<uint32_t, 8> keys;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys.data()), largest);
  const uint32_t rest =
      collect_scalar(a + i, b ? b + i : nullptr, count - i, base + static_cast<uint32_t>(i), floor, acc + i, out);
  return std::max(rest, *std::max_element(keys.begin(), keys.end()));
}

template <bool stream>
__attribute__((target("avx512f"))) uint32_t collect_avx512(const float* a, const float* b, size_t count, uint32_t base,
                                                           uint32_t floor, float* acc, Collected* out) {
  const __m512i without_sign = _mm512_set1_epi32(static_cast<int>(kMagnitudeBits));
  const __m512i least = _mm512_set1_epi32(static_cast<int>(floor));
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i largest = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m512 sum = _mm512_loadu_ps(a + i);
    if (b) sum = _mm512_add_ps(sum, _mm512_loadu_ps(b + i));
    if (stream) {
      _mm512_stream_ps(acc + i, sum);
    } else {
      _mm512_storeu_ps(acc + i, sum);
    }
    const __m512i key = _mm512_and_si512(_mm512_castps_si512(sum), without_sign);
    // Of all lanes: the unmasked maximum of some compilers reads a register that nothing has set.
    largest = _mm512_mask_max_epi32(largest, static_cast<__mmask16>(0xffff), largest, key);
    const __mmask16 hits = _mm512_cmpge_epi32_mask(key, least);
    if (hits == 0) continue;
    const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(base + i)));
    // Compressed in a register and written whole: a compressing store is slow on some CPUs.
    _mm512_storeu_ps(out->values + out->found, _mm512_maskz_compress_ps(hits, sum));
    _mm512_storeu_si512(out->indices + out->found, _mm512_maskz_compress_epi32(hits, indices));
    out->found += static_cast<size_t>(__builtin_popcount(hits));
  }
  std::array<uint32_t, 16> keys;
  _mm512_storeu_si512(keys.data(), largest);
  const uint32_t rest =
      collect_scalar(a + i, b ? b + i : nullptr, count - i, base + static_cast<uint32_t>(i), floor, acc + i, out);
  return std::max(rest, *std::max_element(keys.begin(), keys.end()));
}

#endif

}  // namespace

#if defined(__x86_64__)

CollectFunction collect_function(SimdLevel level, bool stream) {
  switch (level) {
    case SimdLevel::avx512:
      return stream ? collect_avx512<true> : collect_avx512<false>;
    case SimdLevel::avx2:
      return stream ? collect_avx2<true> : collect_avx2<false>;
    default:
      break;
  }
  return collect_scalar;
}

bool can_stream(const float* acc) { return reinterpret_cast<uintptr_t>(acc) % kCacheLine == 0; }

void end_of_streaming() { _mm_sfence(); }

void stream_copy(const float* from, size_t count, void* to) {
  constexpr size_t kLanes = 4;
  auto* out = static_cast<float*>(to);
  size_t i = 0;
  if (reinterpret_cast<uintptr_t>(to) % (kLanes * sizeof(float)) == 0) {
    for (; i + kLanes <= count; i += kLanes) _mm_stream_ps(out + i, _mm_loadu_ps(from + i));
  }
  std::memcpy(static_cast<char*>(to) + i * sizeof(float), from + i, (count - i) * sizeof(float));
}

#else

CollectFunction collect_function(SimdLevel, bool) { return collect_scalar; }
bool can_stream(const float*) { return false; }
void end_of_streaming() {}
void stream_copy(const float* from, size_t count, void* to) { std::memcpy(to, from, count * sizeof(float)); }

#endif

}  // namespace ccore
