// Kernels on their own: 16-bit conversions over all bit patterns, NaN, unaligned memory.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cases.h"
#include "expect.h"
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
  rounding_is_the_same_on_both_paths();
  nan_wins_in_min_and_max();
  no_alignment_is_needed();
  reduction_levels();
}

}  // namespace test
