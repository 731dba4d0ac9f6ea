#include "common/caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ccore {

#if defined(__x86_64__)

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t misaligned = reinterpret_cast<uintptr_t>(to) % kCacheLine;
  const size_t head = std::min(bytes, misaligned == 0 ? 0 : kCacheLine - misaligned);
  std::memcpy(to, from, head);
  size_t at = head;
  // Whole lines, each by stores in a row: a line that is left half written goes to the memory in pieces.
  for (; at + kCacheLine <= bytes; at += kCacheLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  // Such stores keep no order with later ones.
  _mm_sfence();
  std::memcpy(to + at, from + at, bytes - at);
}

#else

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace ccore
