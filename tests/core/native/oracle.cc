#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

// Calls with an integer of the size of an element: a copy of a known size is one instruction, and not a call.
template <typename Visit>
void with_word_of(cc_dtype dtype, Visit visit) {
  switch (cc_dtype_size(dtype)) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

template <typename Word>
Word raw(const Data& data, size_t i) {
  Word bits;
  std::memcpy(&bits, data.data() + i * sizeof bits, sizeof bits);
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
double small_float(uint64_t bits, cc_dtype dtype) {
  const Format format = format_of(dtype);
  const int stored = format.mantissa - 1;
  const auto fraction = static_cast<double>(bits & ((uint64_t{1} << stored) - 1));
  const auto exponent = static_cast<int>(bits >> stored & ((uint64_t{1} << format.exponent) - 1));
  const int bias = (1 << (format.exponent - 1)) - 1;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - stored)
                                         : std::ldexp(fraction + std::ldexp(1.0, stored), exponent - bias - stored);
  return bits >> (8 * cc_dtype_size(dtype) - 1) ? -magnitude : magnitude;
}

// Every value of an 8-bit or 16-bit type.
std::vector<double> all_values(cc_dtype dtype) {
  std::vector<double> values(size_t{1} << (8 * cc_dtype_size(dtype)));
  for (size_t bits = 0; bits < values.size(); ++bits) values[bits] = small_float(bits, dtype);
  return values;
}

const std::vector<double>& values_of(cc_dtype dtype) {
  static const std::vector<double> f16 = all_values(CC_FLOAT16);
  static const std::vector<double> bf16 = all_values(CC_BFLOAT16);
  static const std::vector<double> e4m3 = all_values(CC_FLOAT8_E4M3);
  static const std::vector<double> e5m2 = all_values(CC_FLOAT8_E5M2);
  return dtype == CC_FLOAT16 ? f16 : dtype == CC_BFLOAT16 ? bf16 : dtype == CC_FLOAT8_E4M3 ? e4m3 : e5m2;
}

// Elements as f64; f32 and f64 are the processor's own.
template <typename Word>
class Floats {
 public:
  explicit Floats(cc_dtype dtype) : values_(sizeof(Word) <= 2 ? values_of(dtype).data() : nullptr) {}

  double operator()(const Data& data, size_t i) const {
    const Word bits = raw<Word>(data, i);
    if constexpr (sizeof bits <= 2) return values_[bits];
    std::conditional_t<sizeof bits == 4, float, double> value;
    static_assert(sizeof bits <= 2 || sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
  }

 private:
  const double* values_;
};

template <typename Word>
void expect_floats(const Data& got, const std::vector<Data>& inputs, size_t begin, cc_dtype dtype, cc_redop op) {
  const Floats<Word> at(dtype);
  const Format format = format_of(dtype);
  const auto ranks = static_cast<double>(inputs.size());
  const double tiny = std::ldexp(1.0, -(1 << (format.exponent - 1)) + 2 - format.mantissa);
  const double step = std::ldexp(1.0, 1 - format.mantissa);
  for (size_t i = 0; i < got.size() / sizeof(Word); ++i) {
    double exact = at(inputs[0], begin + i);
    double scale = std::abs(exact);  // rounding errors are relative to this
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const double v = at(inputs[rank], begin + i);
      if (op == CC_SUM || op == CC_AVG) exact += v, scale += std::abs(v);
      if (op == CC_PROD) exact *= v, scale *= std::max(1.0, std::abs(v));
      if (op == CC_MIN) exact = std::min(exact, v), scale = 0;
      if (op == CC_MAX) exact = std::max(exact, v), scale = 0;
    }
    if (op == CC_AVG) exact /= ranks;
    if (inputs.size() == 1) scale = 0;
    const double bound = scale == 0 ? 0 : ranks * (scale * step + tiny);
    const double value = at(got, i);
    EXPECT(std::abs(value - exact) <= bound, "element ", i, ": got ", value, ", expected ", exact, " within ", bound);
  }
}

template <typename Word>
int64_t signed_at(const Data& data, size_t i) {
  return static_cast<std::make_signed_t<Word>>(raw<Word>(data, i));
}

template <typename Word>
uint64_t reduce_integers(const std::vector<Data>& inputs, size_t i, bool has_sign, cc_redop op) {
  const auto value = [&](const Data& data) {
    return has_sign ? static_cast<uint64_t>(signed_at<Word>(data, i)) : uint64_t{raw<Word>(data, i)};
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
  const auto sum = static_cast<Word>(result);
  if (!has_sign) return sum / inputs.size();
  return static_cast<uint64_t>(static_cast<std::make_signed_t<Word>>(sum) / static_cast<int64_t>(inputs.size()));
}

template <typename Word>
void expect_integers(const Data& got, const std::vector<Data>& inputs, size_t begin, bool has_sign, cc_redop op) {
  for (size_t i = 0; i < got.size() / sizeof(Word); ++i) {
    const auto expected = static_cast<Word>(reduce_integers<Word>(inputs, begin + i, has_sign, op));
    const Word value = raw<Word>(got, i);
    EXPECT(value == expected, "element ", i, ": got ", +value, ", expected ", +expected);
  }
}

// Sign and fraction at random, magnitude in [1/8, 8), of E4M3, which ends at 448, in [1/2, 2): products are finite, and
// sums cancel.
uint64_t float_of(uint64_t random, const Format& format) {
  const int stored = format.mantissa - 1;
  const auto bias = (uint64_t{1} << (format.exponent - 1)) - 1;
  const uint64_t fraction = random & ((uint64_t{1} << stored) - 1);
  const uint64_t power = format.exponent < 5 ? 2 + (random >> 60 & 1) : (random >> 60 & 3) + (random >> 58 & 2);
  return (random >> 63) << (format.mantissa + format.exponent - 1) | (bias - 3 + power) << stored | fraction;
}

}  // namespace

Data random_input(cc_dtype dtype, size_t count, int rank, unsigned seed) {
  SplitMix64 random(seed * 977u + static_cast<unsigned>(rank));
  Data data(count * cc_dtype_size(dtype));
  const Format format = format_of(dtype);
  const bool floats = is_float(dtype);
  with_word_of(dtype, [&](auto word) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      word = static_cast<decltype(word)>(floats ? float_of(bits, format) : bits);
      std::memcpy(data.data() + i * sizeof word, &word, sizeof word);
    }
  });
  return data;
}

void expect_reduction(const Data& got, const std::vector<Data>& inputs, size_t begin, cc_dtype dtype, cc_redop op) {
  with_word_of(dtype, [&](auto word) {
    if (is_float(dtype)) return expect_floats<decltype(word)>(got, inputs, begin, dtype, op);
    expect_integers<decltype(word)>(got, inputs, begin, is_signed(dtype), op);
  });
}

}  // namespace test
