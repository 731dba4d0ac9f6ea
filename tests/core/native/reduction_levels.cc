// Every level of vector instructions that this CPU offers, against the scalar reductions, bit by bit.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cases.h"
#include "common/dtype.h"
#include "expect.h"
#include "oracle.h"
#include "reduce/kernels.h"

namespace test {
namespace {

using ccore::SimdLevel;
using Bytes = std::vector<unsigned char>;

constexpr unsigned kDivisors[] = {1, 2, 3, 200};  // the last does not fit i8

// Where the exponent of a floating type is, and how wide it is; of an integer: none.
struct Format {
  unsigned mantissa_bits;
  unsigned exponent_bits;
  bool has_infinity = true;  // else the largest exponent is of numbers, except for one NaN of either sign
};

Format format_of(cc_dtype dtype) {
  switch (dtype) {
    case CC_FLOAT64:
      return {52, 11};
    case CC_FLOAT32:
      return {23, 8};
    case CC_FLOAT16:
      return {10, 5};
    case CC_BFLOAT16:
      return {7, 8};
    case CC_FLOAT8_E4M3:
      return {3, 4, false};
    case CC_FLOAT8_E5M2:
      return {2, 5};
    default:
      return {0, 0};
  }
}

// Of either sign: zero, the ends of the subnormals and of the normals, infinity, NaN with payloads, one and its
// neighbours; of 8-bit floats, everything; of integers, what is around their ends and around zero.
std::vector<uint64_t> hostile(cc_dtype dtype) {
  const Format format = format_of(dtype);
  const auto bits = static_cast<unsigned>(8 * ccore::dtype_size(dtype));
  const uint64_t sign = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> values;
  if (format.exponent_bits != 0 && bits == 8) {
    for (uint64_t value = 0; value < 256; ++value) values.push_back(value);
    return values;
  }
  if (format.exponent_bits == 0) {
    for (uint64_t i = 0; i < 5; ++i) {
      for (const uint64_t middle : {uint64_t{0}, sign, uint64_t{100}}) {
        values.push_back(middle + i);
        values.push_back(middle - i);
      }
    }
    return values;
  }
  const uint64_t least = uint64_t{1} << format.mantissa_bits;
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  const uint64_t one = infinity / 2 / least * least;
  const uint64_t quiet = least / 2;
  for (const uint64_t value : {uint64_t{0},
                               uint64_t{1},
                               uint64_t{2},
                               uint64_t{3},
                               quiet,
                               least - 1,
                               least,
                               least + 1,
                               one - 1,
                               one,
                               one + 1,
                               one + least,
                               one + least / 4,
                               infinity - 1,
                               infinity - 2,
                               infinity - least,
                               infinity,
                               infinity + 1,
                               infinity + quiet - 1,
                               infinity + quiet,
                               infinity + quiet + 5,
                               infinity + least - 1}) {
    values.push_back(value);
    values.push_back(value | sign);
  }
  return values;
}

void put(Bytes* to, size_t size, uint64_t value) {
  unsigned char bytes[8];
  std::memcpy(bytes, &value, 8);  // little endian, as all of the library's hosts
  to->insert(to->end(), bytes, bytes + size);
}

uint64_t get(const unsigned char* from, size_t size, size_t index) {
  uint64_t value = 0;
  std::memcpy(&value, from + index * size, size);
  return value;
}

bool is_nan(cc_dtype dtype, uint64_t value) {
  const Format format = format_of(dtype);
  if (format.exponent_bits == 0) return false;
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  const uint64_t sign = uint64_t{1} << (format.mantissa_bits + format.exponent_bits);
  return (value & (sign - 1)) > (format.has_infinity ? infinity : sign - 2);
}

// Equal bits; where both operands are NaN, a NaN of either.
void expect_same(cc_dtype dtype, const unsigned char* a, const unsigned char* b, const unsigned char* want,
                 const unsigned char* got, size_t count, int level, int op) {
  const size_t size = ccore::dtype_size(dtype);
  if (count == 0 || std::memcmp(want, got, count * size) == 0) return;
  const uint64_t quiet = format_of(dtype).mantissa_bits == 0 ? 0 : uint64_t{1} << (format_of(dtype).mantissa_bits - 1);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t w = get(want, size, i);
    const uint64_t g = get(got, size, i);
    if (w == g) continue;
    const uint64_t x = get(a, size, i);
    const uint64_t y = get(b, size, i);
    const bool of_either = size == 1 ? is_nan(dtype, g) : g == (x | quiet) || g == (y | quiet);
    const bool either = is_nan(dtype, x) && is_nan(dtype, y) && of_either;
    EXPECT(either, "level ", level, ", ", ccore::dtype_name(dtype), ", op ", op, ", element ", i, " of ", count, ": ",
           std::hex, x, " and ", y, " gave ", g, ", not ", w);
  }
}

struct Case {
  SimdLevel level;
  cc_dtype dtype;
  cc_redop op;
  bool last;
  unsigned divisor;
};

// The operands at odd addresses, the result beside them and written over either.
void compare(const Case& one, const Bytes& a, const Bytes& b, size_t offset) {
  const size_t size = ccore::dtype_size(one.dtype);
  const size_t count = a.size() / size;
  const size_t second_offset = (3 * offset + 1) % 8;
  Bytes want(a.size());
  ccore::reduce_function_at(SimdLevel::scalar, one.dtype, one.op, one.last)(want.data(), a.data(), b.data(), count,
                                                                            one.divisor);
  const ccore::ReduceFunction reduce = ccore::reduce_function_at(one.level, one.dtype, one.op, one.last);
  for (int place = 0; place < 3; ++place) {
    Bytes x(a.size() + 16, 0x5a);
    Bytes y(a.size() + 16, 0x5a);
    Bytes z(a.size() + 16, 0x5a);
    std::copy(a.begin(), a.end(), x.begin() + static_cast<std::ptrdiff_t>(offset));
    std::copy(b.begin(), b.end(), y.begin() + static_cast<std::ptrdiff_t>(second_offset));
    Bytes& target = place == 0 ? z : place == 1 ? x : y;
    const size_t target_offset = place == 2 ? second_offset : offset;
    unsigned char* out = target.data() + target_offset;
    reduce(out, x.data() + offset, y.data() + second_offset, count, one.divisor);
    expect_same(one.dtype, a.data(), b.data(), want.data(), out, count, static_cast<int>(one.level), one.op);
    const auto begin = target.begin() + static_cast<std::ptrdiff_t>(target_offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(a.size());
    const auto untouched = [](unsigned char byte) { return byte == 0x5a; };
    EXPECT(std::all_of(target.begin(), begin, untouched) && std::all_of(end, target.end(), untouched),
           "written beside the result");
  }
}

void every_length_and_offset(const Case& one, const Bytes& a, const Bytes& b) {
  const size_t size = ccore::dtype_size(one.dtype);
  for (size_t count = 0; count <= 67; ++count) {
    // Another part of the operands each time.
    const size_t from = 67 * count % (a.size() / size - 67) * size;
    const auto part = [&](const Bytes& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
      return Bytes(begin, begin + static_cast<std::ptrdiff_t>(count * size));
    };
    compare(one, part(a), part(b), count % 8);
  }
  for (size_t offset = 0; offset < 8; ++offset) compare(one, a, b, offset);
}

void levels(cc_dtype dtype) {
  const size_t size = ccore::dtype_size(dtype);
  Bytes a;
  Bytes b;
  const std::vector<uint64_t> values = hostile(dtype);
  for (const uint64_t x : values) {
    for (const uint64_t y : values) {
      put(&a, size, x);
      put(&b, size, y);
    }
  }
  std::mt19937_64 random(static_cast<unsigned>(dtype) + 1);
  for (int i = 0; i < 4001; ++i) {
    put(&a, size, random());
    put(&b, size, random());
  }
  for (const SimdLevel level : ccore::simd_levels()) {
    for (const cc_redop op : {CC_SUM, CC_PROD, CC_MIN, CC_MAX, CC_AVG}) {
      every_length_and_offset({level, dtype, op, false, 1}, a, b);
      if (op != CC_AVG) continue;
      for (const unsigned divisor : kDivisors) every_length_and_offset({level, dtype, op, true, divisor}, a, b);
    }
  }
}

}  // namespace

void reduction_levels() {
  for (const cc_dtype dtype : kDtypes) levels(dtype);
}

}  // namespace test
