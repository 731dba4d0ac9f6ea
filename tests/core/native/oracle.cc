#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "expect.h"

namespace test {
namespace {

bool is_float(cc_dtype dtype) { return dtype <= CC_BFLOAT16 || dtype >= CC_FLOAT8_E4M3; }
bool is_signed(cc_dtype dtype) { return dtype == CC_INT8 || dtype == CC_INT32 || dtype == CC_INT64; }

// Bits of mantissa with the implied one, and of exponent.
struct Format {
  int mantissa;
  int exponent;
};
Format format_of(cc_dtype dtype) {
  switch (dtype) {
    case CC_FLOAT64:
      return {53, 11};
    case CC_FLOAT32:
      return {24, 8};
    case CC_FLOAT16:
      return {11, 5};
    case CC_FLOAT8_E4M3:
      return {4, 4};
    case CC_FLOAT8_E5M2:
      return {3, 5};
    default:
      return {8, 8};
  }
}

uint64_t raw(const Data& data, size_t i, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, data.data() + i * size, size);
  return bits;
}

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the constants of
// java.util.SplittableRandom. Every rank makes every rank's input again and again: with std::mt19937_64, whose state
// alone is 2.5 KiB, the tests spent half their time here.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

// Reads the IEEE layout by hand; the inputs are finite.
double float_at(const Data& data, size_t i, cc_dtype dtype) {
  const size_t size = cc_dtype_size(dtype);
  const uint64_t bits = raw(data, i, size);
  const Format format = format_of(dtype);
  const int stored = format.mantissa - 1;
  const auto fraction = static_cast<double>(bits & ((uint64_t{1} << stored) - 1));
  const auto exponent = static_cast<int>(bits >> stored & ((uint64_t{1} << format.exponent) - 1));
  const int bias = (1 << (format.exponent - 1)) - 1;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - stored)
                                         : std::ldexp(fraction + std::ldexp(1.0, stored), exponent - bias - stored);
  return bits >> (8 * size - 1) ? -magnitude : magnitude;
}

int64_t signed_at(const Data& data, size_t i, size_t size) {
  const auto shift = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(raw(data, i, size) << shift) >> shift;
}

void check_float(double got, const std::vector<double>& values, cc_dtype dtype, cc_redop op, size_t i) {
  double exact = values[0];
  double scale = std::abs(values[0]);  // rounding errors are relative to this
  for (size_t rank = 1; rank < values.size(); ++rank) {
    const double v = values[rank];
    if (op == CC_SUM || op == CC_AVG) exact += v, scale += std::abs(v);
    if (op == CC_PROD) exact *= v, scale *= std::max(1.0, std::abs(v));
    if (op == CC_MIN) exact = std::min(exact, v), scale = 0;
    if (op == CC_MAX) exact = std::max(exact, v), scale = 0;
  }
  if (op == CC_AVG) exact /= static_cast<double>(values.size());
  if (values.size() == 1) scale = 0;
  const Format format = format_of(dtype);
  const double tiny = std::ldexp(1.0, -(1 << (format.exponent - 1)) + 2 - format.mantissa);
  const double bound =
      (scale == 0 ? 0 : static_cast<double>(values.size()) * (std::ldexp(scale, 1 - format.mantissa) + tiny));
  EXPECT(std::abs(got - exact) <= bound, "element ", i, ": got ", got, ", expected ", exact, " within ", bound);
}

uint64_t reduce_integers(const std::vector<Data>& inputs, size_t i, cc_dtype dtype, cc_redop op) {
  const size_t size = cc_dtype_size(dtype);
  const bool has_sign = is_signed(dtype);
  const auto value = [&](const Data& data) {
    return has_sign ? static_cast<uint64_t>(signed_at(data, i, size)) : raw(data, i, size);
  };
  const auto less = [&](uint64_t a, uint64_t b) {
    return has_sign ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  uint64_t result = value(inputs[0]);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    const uint64_t next = value(inputs[rank]);
    if (op == CC_SUM || op == CC_AVG) result += next;
    if (op == CC_PROD) result *= next;
    if (op == CC_MIN && less(next, result)) result = next;
    if (op == CC_MAX && less(result, next)) result = next;
  }
  if (op != CC_AVG || inputs.size() == 1) return result;
  // The sum wraps in the type; then it is divided.
  const auto shift = static_cast<int>(64 - 8 * size);
  if (!has_sign) return (result << shift >> shift) / inputs.size();
  return static_cast<uint64_t>((static_cast<int64_t>(result << shift) >> shift) / static_cast<int64_t>(inputs.size()));
}

}  // namespace

Data random_input(cc_dtype dtype, size_t count, int rank, unsigned seed) {
  SplitMix64 random(seed * 977u + static_cast<unsigned>(rank));
  const size_t size = cc_dtype_size(dtype);
  Data data(count * size);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    if (is_float(dtype)) {
      // Sign and fraction at random, magnitude in [1/8, 8), of E4M3, which ends at 448, in [1/2, 2): products are finite,
      // and sums cancel.
      const Format format = format_of(dtype);
      const int stored = format.mantissa - 1;
      const auto bias = (uint64_t{1} << (format.exponent - 1)) - 1;
      const uint64_t fraction = bits & ((uint64_t{1} << stored) - 1);
      const uint64_t power = format.exponent < 5 ? 2 + (bits >> 60 & 1) : (bits >> 60 & 3) + (bits >> 58 & 2);
      bits = (bits >> 63) << (8 * size - 1) | (bias - 3 + power) << stored | fraction;
    }
    std::memcpy(data.data() + i * size, &bits, size);
  }
  return data;
}

void expect_reduction(const Data& got, const std::vector<Data>& inputs, size_t begin, cc_dtype dtype, cc_redop op) {
  const size_t size = cc_dtype_size(dtype);
  std::vector<double> values(inputs.size());
  for (size_t i = 0; i < got.size() / size; ++i) {
    if (is_float(dtype)) {
      for (size_t rank = 0; rank < inputs.size(); ++rank) values[rank] = float_at(inputs[rank], begin + i, dtype);
      check_float(float_at(got, i, dtype), values, dtype, op, i);
    } else {
      const auto shift = static_cast<int>(64 - 8 * size);
      const uint64_t expected = reduce_integers(inputs, begin + i, dtype, op) << shift >> shift;
      EXPECT(raw(got, i, size) == expected, "element ", i, ": got ", raw(got, i, size), ", expected ", expected);
    }
  }
}

}  // namespace test
