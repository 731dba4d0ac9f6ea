// Kernels on their own: 8-bit and 16-bit conversions over all bit patterns, NaN, unaligned memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "reduce/float8.h"
#include "reduce/half.h"
#include "reduce/kernels.h"

namespace test {
namespace {

bool half_is_nan(unsigned bits, unsigned infinity) { return (bits & 0x7fff) > infinity; }

void conversions() {
  std::vector<uint16_t> all(65536);
  for (unsigned bits = 0; bits < 65536; ++bits) all[bits] = static_cast<uint16_t>(bits);
  std::vector<float> f16(65536);
  std::vector<float> bf16(65536);
  std::vector<uint16_t> back16(65536);
  std::vector<uint16_t> backbf(65536);
  ccore::f16_to_f32(all.data(), f16.data(), 65536);
  ccore::f32_to_f16(f16.data(), back16.data(), 65536);
  ccore::bf16_to_f32(all.data(), bf16.data(), 65536);
  ccore::f32_to_bf16(bf16.data(), backbf.data(), 65536);
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float one = ccore::f16_to_f32(static_cast<uint16_t>(bits));
    if (half_is_nan(bits, 0x7c00)) {
      EXPECT(std::isnan(one) && std::isnan(f16[bits]) && half_is_nan(back16[bits], 0x7c00), "f16 NaN ", bits);
    } else {
      EXPECT(one == f16[bits] && back16[bits] == bits, "f16 ", bits, " came back as ", back16[bits]);
      EXPECT(ccore::f32_to_f16(one) == bits, "scalar f16 ", bits);
    }
    if (half_is_nan(bits, 0x7f80)) {
      EXPECT(half_is_nan(backbf[bits], 0x7f80), "bf16 NaN ", bits);
    } else {
      EXPECT(backbf[bits] == bits, "bf16 ", bits);
    }
  }
}

// The vector path and the scalar one must round alike, or results would depend on the position of an element.
void rounding_is_the_same_on_both_paths() {
  std::vector<float> values;
  for (uint32_t bits = 0x30000000; bits < 0x48000000; bits += 4093) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
    values.push_back(-value);
  }
  std::vector<uint16_t> batch(values.size());
  ccore::f32_to_f16(values.data(), batch.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT(batch[i] == ccore::f32_to_f16(values[i]), values[i], ": ", batch[i], " and ", ccore::f32_to_f16(values[i]));
  }
  EXPECT(ccore::f32_to_f16(2049.0f) == 0x6800, "a tie goes to even");
  EXPECT(ccore::f32_to_f16(2051.0f) == 0x6802, "a tie goes to even");
  EXPECT(ccore::f32_to_f16(65520.0f) == 0x7c00, "what rounds above 65504 is infinite");
  EXPECT(ccore::f32_to_bf16(257.0f) == 0x4380, "a tie goes to even");
}

// The value of a pattern by the definition of the format; NaN for a pattern without a value.
double float8_value(unsigned bits, int mantissa_bits, int bias, unsigned infinity, bool has_infinity) {
  const unsigned magnitude = bits & 0x7f;
  const auto exponent = static_cast<int>(magnitude >> mantissa_bits);
  const auto mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  if (magnitude >= infinity) value = std::numeric_limits<double>::quiet_NaN();
  if (magnitude == infinity && has_infinity) value = std::numeric_limits<double>::infinity();
  return bits & 0x80 ? -value : value;
}

// All patterns to f32 and back, and between neighbours: just below, at and just above where rounding changes.
template <typename Format>
void float8_conversions(int mantissa_bits, int bias, unsigned infinity, bool has_infinity, uint32_t too_large) {
  const auto value_of = [&](unsigned bits) { return float8_value(bits, mantissa_bits, bias, infinity, has_infinity); };
  const auto narrowed = [](float value) { return ccore::f32_to_float8<Format, uint32_t>(value); };
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const double wanted = value_of(bits);
    const float got = ccore::float8_to_f32<Format, float>(bits);
    if (std::isnan(wanted)) {
      EXPECT(std::isnan(got) && narrowed(got) == (bits | 0x7f), "NaN ", bits);
      continue;
    }
    EXPECT(static_cast<double>(got) == wanted && std::signbit(got) == (bits >= 0x80), bits, " is ", got);
    EXPECT(narrowed(got) == bits, bits, " came back as ", narrowed(got));
    if (std::isinf(wanted)) continue;
    const double step =
        std::ldexp(1.0, std::max(1, static_cast<int>((bits & 0x7f) >> mantissa_bits)) - bias - mantissa_bits);
    const float sign = bits >= 0x80 ? -1 : 1;
    const auto tie = static_cast<float>(std::abs(wanted) + step / 2);
    const uint32_t next = std::min((bits & 0x7f) + 1, too_large) | (bits & 0x80);
    EXPECT(narrowed(sign * std::nextafter(tie, 0.0f)) == bits, "below the tie above ", bits);
    EXPECT(narrowed(sign * tie) == (bits % 2 == 0 ? bits : next), "the tie above ", bits);
    EXPECT(narrowed(sign * std::nextafter(tie, 1e9f)) == next, "above the tie above ", bits);
  }
  for (const float large : {1e6f, 3e38f, std::numeric_limits<float>::infinity()}) {
    EXPECT(narrowed(large) == too_large && narrowed(-large) == (too_large | 0x80), large, ": ", narrowed(large));
  }
  EXPECT(narrowed(1e-40f) == 0 && narrowed(-1e-10f) == 0x80, "what is tiny is a zero with its sign");
}

void nan_wins_in_min_and_max() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const cc_redop op : {CC_MIN, CC_MAX}) {
    const float a[] = {nan, 1.0f, nan, 2.0f};
    const float b[] = {1.0f, nan, nan, 3.0f};
    float out[4];
    ccore::reduce_function(CC_FLOAT32, op)(out, a, b, 4, 1);
    EXPECT(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2]), "NaN was lost");
    EXPECT(out[3] == (op == CC_MIN ? 2.0f : 3.0f), out[3]);
  }
}

void no_alignment_is_needed() {
  std::vector<unsigned char> memory(3 * 64 + 3);
  unsigned char* a = memory.data() + 1;
  unsigned char* b = memory.data() + 66;
  unsigned char* out = memory.data() + 131;
  for (int i = 0; i < 8; ++i) {
    const double x = i;
    const double y = 10.0 * i;
    std::memcpy(a + 8 * i, &x, 8);
    std::memcpy(b + 8 * i, &y, 8);
  }
  ccore::reduce_function(CC_FLOAT64, CC_SUM)(out, a, b, 8, 1);
  for (int i = 0; i < 8; ++i) {
    double sum;
    std::memcpy(&sum, out + 8 * i, 8);
    EXPECT(sum == 11.0 * i, sum);
  }
}

}  // namespace

void reduction() {
  conversions();
  float8_conversions<ccore::E4M3>(3, 7, 0x7f, false, 0x7e);
  float8_conversions<ccore::E5M2>(2, 15, 0x7c, true, 0x7c);
  rounding_is_the_same_on_both_paths();
  nan_wins_in_min_and_max();
  no_alignment_is_needed();
  reduction_levels();
}

}  // namespace test
