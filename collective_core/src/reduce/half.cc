#include "reduce/half.h"

#include <cstring>

#include "reduce/unaligned.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ccore {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#if defined(__x86_64__)
bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}

__attribute__((target("avx,f16c"))) size_t f16_to_f32_f16c(const void* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(
        to + i,
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + 2 * i))));
  }
  return i;
}

__attribute__((target("avx,f16c"))) size_t f32_to_f16_f16c(const float* from, void* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + 2 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

// Both convert as many whole vectors as the CPU has instructions for, and return the number of their elements.
size_t widen_vectors(const void* from, float* to, size_t count) {
  return has_f16c() ? f16_to_f32_f16c(from, to, count) : 0;
}

size_t narrow_vectors(const float* from, void* to, size_t count) {
  return has_f16c() ? f32_to_f16_f16c(from, to, count) : 0;
}
#elif defined(__aarch64__)
size_t widen_vectors(const void* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    float16x4_t halves;
    std::memcpy(&halves, static_cast<const char*>(from) + 2 * i, sizeof halves);
    vst1q_f32(to + i, vcvt_f32_f16(halves));
  }
  return i;
}

size_t narrow_vectors(const float* from, void* to, size_t count) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float16x4_t halves = vcvt_f16_f32(vld1q_f32(from + i));
    std::memcpy(static_cast<char*>(to) + 2 * i, &halves, sizeof halves);
  }
  return i;
}
#else
size_t widen_vectors(const void*, float*, size_t) { return 0; }
size_t narrow_vectors(const float*, void*, size_t) { return 0; }
#endif

}  // namespace

float f16_to_f32(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0x1f) {  // infinity, or NaN made quiet as the hardware does
    return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return float_of(sign | bits_of(magnitude));
  }
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds above 65504
  if (magnitude < 0x38800000) {  // subnormal: let f32 addition do the rounding at 2^-24
    const float shifted = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(shifted) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

float bf16_to_f32(uint16_t bits) { return float_of(uint32_t{bits} << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t nan = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

void f16_to_f32(const void* from, float* to, size_t count) {
  size_t i = widen_vectors(from, to, count);
  for (; i < count; ++i) to[i] = f16_to_f32(load<uint16_t>(from, i));
}

void f32_to_f16(const float* from, void* to, size_t count) {
  size_t i = narrow_vectors(from, to, count);
  for (; i < count; ++i) store(to, i, f32_to_f16(from[i]));
}

void bf16_to_f32(const void* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = bf16_to_f32(load<uint16_t>(from, i));
}

void f32_to_bf16(const float* from, void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) store(to, i, f32_to_bf16(from[i]));
}

}  // namespace ccore
