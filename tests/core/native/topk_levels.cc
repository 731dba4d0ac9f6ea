// Top-k with every kind of vector instructions that this CPU has: the same bits as without any.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cases.h"
#include "compress/collect.h"
#include "compress/error_feedback.h"
#include "compress/magnitude.h"
#include "compress/payload.h"
#include "compress/residual.h"
#include "compress/topk_plan.h"
#include "expect.h"
#include "reduce/half.h"
#include "reduce/unaligned.h"
#include "topk_values.h"

namespace test {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// Ties, zeros of both signs, denormals, and the ends of the range.
Values hostile(size_t count, unsigned seed, bool finite) {
  const Values some = {0.0f,         -0.0f,     kDenormal,  -kDenormal, 1.0f,      -1.0f,  1.0f,
                       2.0f,         -1e-30f,   1e30f,      -2.5f,      0.75f,     -0.75f, 3e-39f,
                       kLargest / 2, kInfinity, -kInfinity, kLargest,   -kLargest, kNan};
  std::mt19937 engine(seed);
  Values x(count);
  for (float& value : x) value = some[engine() % (finite ? 15 : some.size())];
  return x;
}

struct Pass {
  uint32_t largest;
  Values acc;
  Values values;
  std::vector<uint32_t> indices;
};

// Everything at `skew` floats from a boundary of a cache line, so that acc can be streamed to where skew is 0.
Pass collect(ccore::SimdLevel level, const Values& a, const Values* b, uint32_t floor, size_t skew) {
  const size_t count = a.size();
  ccore::FloatBuffer acc;
  acc.assign_zeros(count + skew + 1);
  Values values(count + ccore::kCollectSlack + skew);
  std::vector<uint32_t> indices(count + ccore::kCollectSlack);
  Values shifted(skew, 7.0f);
  shifted.insert(shifted.end(), a.begin(), a.end());
  float* to = acc.data() + skew;
  ccore::Collected out{values.data() + skew, indices.data(), 0};
  const bool stream = ccore::can_stream(to);
  EXPECT(!stream || skew % 16 == 0, "streams to ", skew);
  const uint32_t largest = ccore::collect_function(level, stream)(shifted.data() + skew, b ? b->data() : nullptr, count,
                                                                  1000, floor, to, &out);
  ccore::end_of_streaming();
  EXPECT(acc.data()[count + skew] == 0.0f, "wrote past the end");
  return Pass{largest, Values(to, to + count), Values(out.values, out.values + out.found),
              std::vector<uint32_t>(out.indices, out.indices + out.found)};
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void a_pass_is_what_it_says() {
  const Values a = hostile(500, 3, false);
  const Values b = hostile(500, 4, true);
  const uint32_t floor = ccore::magnitude(1.0f);
  const Pass pass = collect(ccore::SimdLevel::scalar, a, &b, floor, 1);
  size_t found = 0;
  uint32_t largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float sum = a[i] + b[i];
    EXPECT(ccore::magnitude(sum) == ccore::magnitude(pass.acc[i]), "element ", i);
    largest = std::max(largest, ccore::magnitude(sum));
    if (ccore::magnitude(sum) < floor) continue;
    EXPECT(found < pass.indices.size() && pass.indices[found] == 1000 + i, "element ", i, " is missing");
    EXPECT(ccore::magnitude(pass.values[found]) == ccore::magnitude(sum), "value of element ", i);
    ++found;
  }
  EXPECT(found == pass.indices.size() && largest == pass.largest, "found ", pass.indices.size());
}

void a_pass_is_the_same_at_every_level() {
  for (const ccore::SimdLevel level : ccore::simd_levels()) {
    for (const bool finite : {true, false}) {
      for (size_t count = 0; count < 100; count += count < 35 ? 1 : 13) {
        const Values a = hostile(count, static_cast<unsigned>(count), finite);
        const Values b = hostile(count, 77, true);
        for (const uint32_t floor :
             {0u, 1u, ccore::magnitude(1.0f), ccore::kInfiniteMagnitude, ccore::kMagnitudeBits}) {
          for (const size_t skew : {size_t{0}, size_t{1}, size_t{8}}) {
            for (const Values* second : {static_cast<const Values*>(nullptr), &b}) {
              const Pass expected = collect(ccore::SimdLevel::scalar, a, second, floor, skew);
              const Pass pass = collect(level, a, second, floor, skew);
              const bool same = pass.largest == expected.largest && same_bits(pass.acc, expected.acc) &&
                                same_bits(pass.values, expected.values) && pass.indices == expected.indices;
              EXPECT(same, "level ", static_cast<int>(level), " count ", count, " floor ", floor, " skew ", skew);
            }
          }
        }
      }
    }
  }
}

Compressed step_of(ccore::SimdLevel level, const void* gradient, cc_dtype dtype, const Values& residual,
                   const ccore::TopkSettings& settings) {
  const size_t count = residual.size();
  ccore::CompressScratch scratch;
  ccore::FloatBuffer acc;
  acc.assign_zeros(count);
  Compressed step{};
  step.finite = ccore::accumulate(gradient, dtype, residual.data(), count, settings, level, &scratch, acc.data());
  if (!step.finite) return step;
  step.payload.resize(ccore::payload_bytes(ccore::kept_of(count, settings.ratio), settings.values));
  ccore::compress(settings, count, &scratch, acc.data(), step.payload.data());
  step.left.assign(acc.data(), acc.data() + count);
  return step;
}

// Into memory on a boundary of a cache line, and beside one.
void sum_is_what_was_sent(const std::vector<std::byte>& payload, const ccore::TopkSettings& settings, size_t count) {
  const size_t kept = ccore::kept_of(count, settings.ratio);
  Values expected(count, 0.0f);
  for (size_t i = 0; i < kept; ++i) {
    const std::byte* indices = payload.data() + sizeof(ccore::PayloadHeader);
    const std::byte* values = indices + kept * sizeof(uint32_t);
    const float value = settings.values == CC_FLOAT16 ? ccore::f16_to_f32(ccore::load<uint16_t>(values, i))
                                                      : ccore::load<float>(values, i);
    expected[ccore::load<uint32_t>(indices, i)] += value;
    expected[ccore::load<uint32_t>(indices, i)] += value;
  }
  for (float& value : expected) value /= 3.0f;
  for (const size_t skew : {size_t{0}, size_t{1}}) {
    ccore::FloatBuffer sum;
    sum.assign_zeros(count + skew);
    ccore::decode_sum({payload.data(), payload.data()}, kept, settings.values, 3, CC_FLOAT32, count, sum.data() + skew);
    EXPECT(same_bits(Values(sum.data() + skew, sum.data() + skew + count), expected), "count ", count);
  }
}

// Payloads and residuals; long enough for a sample, and the last one for streaming.
void steps_are_the_same_at_every_level() {
  for (const size_t count : {size_t{1}, size_t{1003}, size_t{100001}, (size_t{1} << 20) + 5}) {
    const Values ordinary = normal(count, 50, 1e-2f);
    const Values ties = hostile(count, 51, true);
    const Values residual = normal(count, 52, 1e-2f);
    for (const Values* gradient : {&ordinary, &ties}) {
      for (const cc_dtype dtype : {CC_FLOAT32, CC_FLOAT16, CC_BFLOAT16}) {
        std::vector<std::byte> memory(4 * count + 1);  // at an odd address
        if (dtype == CC_FLOAT32) std::memcpy(memory.data() + 1, gradient->data(), 4 * count);
        if (dtype == CC_FLOAT16) {
          Values small = *gradient;
          for (float& value : small) value = std::clamp(value, -60000.0f, 60000.0f);
          ccore::f32_to_f16(small.data(), memory.data() + 1, count);
        }
        if (dtype == CC_BFLOAT16) ccore::f32_to_bf16(gradient->data(), memory.data() + 1, count);
        ccore::TopkSettings settings;
        settings.values = dtype == CC_BFLOAT16 ? CC_FLOAT16 : CC_FLOAT32;
        const Compressed expected = step_of(ccore::SimdLevel::scalar, memory.data() + 1, dtype, residual, settings);
        EXPECT(expected.finite, "finite");
        for (const ccore::SimdLevel level : ccore::simd_levels()) {
          const Compressed step = step_of(level, memory.data() + 1, dtype, residual, settings);
          EXPECT(step.finite && step.payload == expected.payload && same_bits(step.left, expected.left), "level ",
                 static_cast<int>(level), " count ", count, " dtype ", static_cast<int>(dtype));
        }
        sum_is_what_was_sent(expected.payload, settings, count);
        if (dtype != CC_FLOAT32) continue;
        const Compressed aligned = step_of(ccore::simd_levels().back(), gradient->data(), dtype, residual, settings);
        EXPECT(aligned.payload == expected.payload && same_bits(aligned.left, expected.left), "count ", count);
      }
    }
  }
}

void what_is_not_finite_is_met_everywhere() {
  const size_t count = 9000;  // blocks and a rest that fills no vector
  const Values residual = normal(count, 60, 1e-2f);
  for (const ccore::SimdLevel level : ccore::simd_levels()) {
    for (const size_t place : {size_t{0}, size_t{15}, size_t{4095}, size_t{4096}, size_t{8191}, count - 9, count - 1}) {
      for (const float bad : {kInfinity, -kInfinity, kNan}) {
        Values gradient = normal(count, 61, 1e-2f);
        gradient[place] = bad;
        EXPECT(!step_of(level, gradient.data(), CC_FLOAT32, residual, {}).finite, "level ", static_cast<int>(level),
               " place ", place, " value ", bad);
      }
    }
  }
}

}  // namespace

void topk_levels() {
  a_pass_is_what_it_says();
  a_pass_is_the_same_at_every_level();
  steps_are_the_same_at_every_level();
  what_is_not_finite_is_met_everywhere();
}

}  // namespace test
