// 8-bit floats of the OCP FP8 specification to and from f32: of one element, of a vector of them, and on a GPU. All of
// them run the same instructions, so that hosts and GPUs round alike. No branches, so that loops become vectors.
//
// As torch 2.13 converts float8_e4m3fn and float8_e5m2: to nearest even, subnormals kept. What is too large for E5M2
// becomes infinity. E4M3 has none, so that it becomes the largest number there, 448.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define CCORE_FLOAT8 __host__ __device__ __forceinline__
#else
#define CCORE_FLOAT8 inline
#endif

namespace ccore {

template <uint32_t mantissa_bits, uint32_t bias, uint32_t first_special, uint32_t too_large>
struct Float8 {
  static constexpr uint32_t kSpecial = first_special;      // the first pattern that is not finite
  static constexpr uint32_t kTooLarge = too_large;         // what becomes of larger numbers
  static constexpr uint32_t kShift = 23 - mantissa_bits;   // to the mantissa of f32
  static constexpr uint32_t kRebias = (127 - bias) << 23;  // from this exponent to that of f32
  static constexpr uint32_t kLeastNormal = kRebias + (1u << 23);  // as f32
  static constexpr uint32_t kMantissas = 1u << mantissa_bits;
  // As f32, a number whose last bit has the value of the last bit of a subnormal.
  static constexpr uint32_t kSubnormalUnit = (151 - bias - mantissa_bits) << 23;
};
using E4M3 = Float8<3, 7, 0x7f, 0x7e>;
using E5M2 = Float8<2, 15, 0x7c, 0x7c>;

template <typename To, typename From>
CCORE_FLOAT8 To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Bits and Floats: uint32_t and float, or vectors of them; the upper bits of each element are zero.
template <typename Format, typename Floats, typename Bits>
CCORE_FLOAT8 Floats float8_to_f32(Bits bits) {
  const Bits magnitude = bits & 0x7f;
  const Bits shifted = (magnitude << Format::kShift) + Format::kRebias;
  const Bits largest_exponent = shifted + Format::kRebias;  // infinity and NaN
  const Bits finite_or_not = magnitude >= Format::kSpecial ? largest_exponent : shifted;
  // The implied one is there too much: (1 + m) * least - least.
  const Floats least = bits_as<Floats>(Bits{} + Format::kLeastNormal);
  const Bits subnormal = bits_as<Bits>(bits_as<Floats>(shifted + (1u << 23)) - least);
  const Bits result = magnitude < Format::kMantissas ? subnormal : finite_or_not;
  return bits_as<Floats>(result | (bits & 0x80) << 24);
}

template <typename Format, typename Bits, typename Floats>
CCORE_FLOAT8 Bits f32_to_float8(Floats value) {
  const Bits bits = bits_as<Bits>(value);
  const Bits magnitude = bits & 0x7fffffff;
  const Bits odd = (magnitude >> Format::kShift) & 1;
  const Bits normal = (magnitude + ((1u << (Format::kShift - 1)) - 1) + odd - Format::kRebias) >> Format::kShift;
  const Bits bounded = normal < Format::kTooLarge ? normal : Bits{} + Format::kTooLarge;
  // The addition of f32 does the rounding.
  const Bits unit = Bits{} + Format::kSubnormalUnit;
  const Bits subnormal = bits_as<Bits>(bits_as<Floats>(magnitude) + bits_as<Floats>(unit)) - unit;
  const Bits number = magnitude < Format::kLeastNormal ? subnormal : bounded;
  const Bits result = magnitude > 0x7f800000 ? Bits{} + 0x7f : number;
  return result | ((bits >> 24) & 0x80);
}

}  // namespace ccore
