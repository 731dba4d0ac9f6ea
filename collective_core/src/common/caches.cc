#include "common/caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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

namespace {

// Below that the C library uses ordinary loads and stores itself.
constexpr size_t kLeastOwnCopy = 4096;

__attribute__((target("avx2"))) void copy_by_vectors(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kVector = sizeof(__m256i);
  const size_t misaligned = reinterpret_cast<uintptr_t>(to) % kVector;
  size_t at = misaligned == 0 ? 0 : kVector - misaligned;
  std::memcpy(to, from, at);
  for (; at + 4 * kVector <= bytes; at += 4 * kVector) {
    const auto* source = reinterpret_cast<const __m256i*>(from + at);
    auto* target = reinterpret_cast<__m256i*>(to + at);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    const __m256i c = _mm256_loadu_si256(source + 2);
    const __m256i d = _mm256_loadu_si256(source + 3);
    _mm256_store_si256(target, a);
    _mm256_store_si256(target + 1, b);
    _mm256_store_si256(target + 2, c);
    _mm256_store_si256(target + 3, d);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace

void copy_into_caches(std::byte* to, const std::byte* from, size_t bytes) {
  static const bool has_vectors = __builtin_cpu_supports("avx2") != 0;
  if (bytes < kLeastOwnCopy || !has_vectors) {
    std::memcpy(to, from, bytes);
  } else {
    copy_by_vectors(to, from, bytes);
  }
}

#else

void copy_into_caches(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace ccore
