#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ccore_perf {
namespace {

// Element i depends on i modulo this prime only, so a shifted or repeated block cannot pass as right.
constexpr size_t kPeriod = 4099;

// The largest sum. Up to 120 all whole numbers are exact in bf16 (8 bits of mantissa) and fit i8; up to 8 they are exact
// in E5M2 (3 bits).
size_t largest_sum(cc_dtype dtype) { return dtype == CC_FLOAT8_E4M3 || dtype == CC_FLOAT8_E5M2 ? 8 : 120; }

// What rank contributes at i: small whole numbers. Of what is copied all are below 113, another prime. Sums stay below
// largest_sum(); of many ranks at most half as many, in turn, contribute 1 at a position, and the others 0.
int contribution(size_t i, const Inputs& inputs, int rank) {
  const auto n = static_cast<size_t>(inputs.nranks);
  const auto r = static_cast<size_t>(rank);
  if (!inputs.reduces) return static_cast<int>((i + 7 * r) % 113);
  if (inputs.op == CC_PROD) return i % n == r ? 2 : 1;
  const size_t largest = largest_sum(inputs.dtype);
  const size_t most = largest / 2;
  if (n > most) return (i + r) % ((n + most - 1) / most) == 0 ? 1 : 0;
  const size_t span = std::max<size_t>(2, largest / n);
  return static_cast<int>((i + 7 * r) % std::min<size_t>(span, 100));
}

double reduction(size_t i, const Inputs& inputs) {
  double value = contribution(i, inputs, 0);
  for (int rank = 1; rank < inputs.nranks; ++rank) {
    const double next = contribution(i, inputs, rank);
    switch (inputs.op) {
      case CC_SUM:
      case CC_AVG:
        value += next;
        break;
      case CC_PROD:
        value *= next;
        break;
      case CC_MIN:
        value = std::min(value, next);
        break;
      case CC_MAX:
        value = std::max(value, next);
        break;
    }
  }
  return value;
}

// Independent of the library's own conversions: only finite values of small magnitude come here, none below zero.
uint16_t to_small_float(float value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(static_cast<double>(value), &exponent);  // value = fraction * 2^exponent
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int biased = std::max(1, exponent - 1 + bias);  // 1: also of subnormals, which lack the implied bit
  const double scaled = std::ldexp(static_cast<double>(value), mantissa_bits + bias - biased);
  // Ties to even. A carry out of the mantissa raises the exponent by itself.
  const int mantissa = static_cast<int>(std::nearbyint(scaled)) - (1 << mantissa_bits);
  return static_cast<uint16_t>((biased << mantissa_bits) + mantissa);
}

template <typename T>
void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Writes `value`, divided by `divisor` in the type's own arithmetic, as the type.
void encode(void* to, double value, int divisor, cc_dtype dtype) {
  const auto whole = static_cast<int64_t>(value) / divisor;
  switch (dtype) {
    case CC_FLOAT64:
      return store(to, value / divisor);
    case CC_FLOAT32:
      return store(to, static_cast<float>(value) / static_cast<float>(divisor));
    case CC_FLOAT16:
      return store(to, to_small_float(static_cast<float>(value) / static_cast<float>(divisor), 5, 10));
    case CC_BFLOAT16:
      return store(to, to_small_float(static_cast<float>(value) / static_cast<float>(divisor), 8, 7));
    case CC_INT8:
      return store(to, static_cast<int8_t>(whole));
    case CC_UINT8:
      return store(to, static_cast<uint8_t>(whole));
    case CC_INT32:
      return store(to, static_cast<int32_t>(whole));
    case CC_UINT32:
      return store(to, static_cast<uint32_t>(whole));
    case CC_INT64:
      return store(to, whole);
    case CC_UINT64:
      return store(to, static_cast<uint64_t>(whole));
    case CC_FLOAT8_E4M3:
      return store(to,
                   static_cast<uint8_t>(to_small_float(static_cast<float>(value) / static_cast<float>(divisor), 4, 3)));
    case CC_FLOAT8_E5M2:
      return store(to,
                   static_cast<uint8_t>(to_small_float(static_cast<float>(value) / static_cast<float>(divisor), 5, 2)));
  }
}

// The first elements of the wanted ones, which repeat every kPeriod.
std::vector<unsigned char> period(size_t first, size_t count, const Inputs& inputs, int rank) {
  const size_t element = cc_dtype_size(inputs.dtype);
  std::vector<unsigned char> bytes(std::min(count, kPeriod) * element);
  for (size_t k = 0; k * element < bytes.size(); ++k) {
    const size_t i = (first + k) % kPeriod;
    const bool reduced = rank == kReduction;
    const double value = reduced ? reduction(i, inputs) : contribution(i, inputs, rank);
    const int divisor = reduced && inputs.op == CC_AVG ? inputs.nranks : 1;
    // What is only copied are bytes: few numbers would be left of them in 8-bit floats.
    encode(bytes.data() + k * element, value, divisor, inputs.reduces || element > 1 ? inputs.dtype : CC_UINT8);
  }
  return bytes;
}

}  // namespace

void fill(void* data, size_t first, size_t count, const Inputs& inputs, int rank) {
  const auto bytes = period(first, count, inputs, rank);
  const size_t total = count * cc_dtype_size(inputs.dtype);
  for (size_t at = 0; at < total; at += bytes.size()) {
    std::memcpy(static_cast<char*>(data) + at, bytes.data(), std::min(bytes.size(), total - at));
  }
}

size_t count_wrong(const void* data, size_t first, size_t count, const Inputs& inputs, int rank) {
  const size_t element = cc_dtype_size(inputs.dtype);
  const auto bytes = period(first, count, inputs, rank);
  const size_t total = count * element;
  const auto* at = static_cast<const unsigned char*>(data);
  size_t wrong = 0;
  for (size_t begin = 0; begin < total; begin += bytes.size()) {
    const size_t length = std::min(bytes.size(), total - begin);
    if (std::memcmp(at + begin, bytes.data(), length) == 0) continue;
    for (size_t i = 0; i < length; i += element) {
      wrong += std::memcmp(at + begin + i, bytes.data() + i, element) != 0;
    }
  }
  return wrong;
}

}  // namespace ccore_perf
