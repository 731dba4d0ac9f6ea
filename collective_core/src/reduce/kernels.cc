#include "reduce/kernels.h"

#include <algorithm>
#include <type_traits>

#include "common/error.h"
#include "reduce/float8.h"
#include "reduce/half.h"
#include "reduce/unaligned.h"

namespace ccore {
namespace {

// Arithmetic type: integers wrap, which signed types and promotion to int would make undefined.
template <typename T, bool = std::is_integral_v<T>>
struct Wide {
  using Type = T;
};
template <typename T>
struct Wide<T, true> {
  using Type = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
};

struct Sum {
  template <typename T>
  static T apply(T a, T b, unsigned) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Prod {
  template <typename T>
  static T apply(T a, T b, unsigned) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b, unsigned) {
    return (b < a || b != b) ? b : a;  // b != b: NaN wins; a NaN in a stays, for no comparison holds
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b, unsigned) {
    return (b > a || b != b) ? b : a;
  }
};
struct SumDivide {
  template <typename T>
  static T apply(T a, T b, unsigned divisor) {
    return static_cast<T>(Sum::apply(a, b, 0) / static_cast<T>(divisor));
  }
};

template <typename T, typename Op>
void reduce(void* out, const void* a, const void* b, size_t count, unsigned divisor) {
  for (size_t i = 0; i < count; ++i) store(out, i, Op::template apply<T>(load<T>(a, i), load<T>(b, i), divisor));
}

// A divisor does not fit i8 when there are more than 127 ranks.
template <typename T>
void sum_divide_integer(void* out, const void* a, const void* b, size_t count, unsigned divisor) {
  using W = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  for (size_t i = 0; i < count; ++i) {
    const auto sum = static_cast<W>(Sum::apply<T>(load<T>(a, i), load<T>(b, i), 0));
    store(out, i, static_cast<T>(sum / static_cast<W>(divisor)));
  }
}

using ToFloat = void (*)(const void*, float*, size_t);
using FromFloat = void (*)(const float*, void*, size_t);

template <typename Format>
void float8_to_floats(const void* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = float8_to_f32<Format, float>(uint32_t{load<uint8_t>(from, i)});
}

template <typename Format>
void floats_to_float8(const float* from, void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) store(to, i, static_cast<uint8_t>(f32_to_float8<Format, uint32_t>(from[i])));
}

template <size_t kElement, ToFloat to_float, FromFloat from_float, typename Op>
void reduce_converted(void* out, const void* a, const void* b, size_t count, unsigned divisor) {
  constexpr size_t kBatch = 256;  // both operands stay in the first-level cache
  float x[kBatch];
  float y[kBatch];
  for (size_t done = 0; done < count; done += kBatch) {
    const size_t n = std::min(kBatch, count - done);
    to_float(static_cast<const char*>(a) + kElement * done, x, n);
    to_float(static_cast<const char*>(b) + kElement * done, y, n);
    for (size_t i = 0; i < n; ++i) x[i] = Op::template apply<float>(x[i], y[i], divisor);
    from_float(x, static_cast<char*>(out) + kElement * done, n);
  }
}

template <typename Op>
ReduceFunction by_dtype(cc_dtype dtype) {
  constexpr bool divides = std::is_same_v<Op, SumDivide>;
  switch (dtype) {
    case CC_FLOAT64:
      return reduce<double, Op>;
    case CC_FLOAT32:
      return reduce<float, Op>;
    case CC_FLOAT16:
      return reduce_converted<2, f16_to_f32, f32_to_f16, Op>;
    case CC_BFLOAT16:
      return reduce_converted<2, bf16_to_f32, f32_to_bf16, Op>;
    case CC_FLOAT8_E4M3:
      return reduce_converted<1, float8_to_floats<E4M3>, floats_to_float8<E4M3>, Op>;
    case CC_FLOAT8_E5M2:
      return reduce_converted<1, float8_to_floats<E5M2>, floats_to_float8<E5M2>, Op>;
    default:
      break;
  }
  if constexpr (divides) {
    switch (dtype) {
      case CC_INT8:
        return sum_divide_integer<int8_t>;
      case CC_UINT8:
        return sum_divide_integer<uint8_t>;
      case CC_INT32:
        return sum_divide_integer<int32_t>;
      case CC_UINT32:
        return sum_divide_integer<uint32_t>;
      case CC_INT64:
        return sum_divide_integer<int64_t>;
      case CC_UINT64:
        return sum_divide_integer<uint64_t>;
      default:
        break;
    }
  } else {
    switch (dtype) {
      case CC_INT8:
        return reduce<int8_t, Op>;
      case CC_UINT8:
        return reduce<uint8_t, Op>;
      case CC_INT32:
        return reduce<int32_t, Op>;
      case CC_UINT32:
        return reduce<uint32_t, Op>;
      case CC_INT64:
        return reduce<int64_t, Op>;
      case CC_UINT64:
        return reduce<uint64_t, Op>;
      default:
        break;
    }
  }
  throw Error(CC_ERROR_INTERNAL, "no reduction for this type");
}

ReduceFunction scalar(cc_dtype dtype, cc_redop op, bool last) {
  switch (op) {
    case CC_SUM:
      return by_dtype<Sum>(dtype);
    case CC_AVG:
      return last ? by_dtype<SumDivide>(dtype) : by_dtype<Sum>(dtype);
    case CC_PROD:
      return by_dtype<Prod>(dtype);
    case CC_MIN:
      return by_dtype<Min>(dtype);
    case CC_MAX:
      return by_dtype<Max>(dtype);
  }
  throw Error(CC_ERROR_INTERNAL, "no such reduction");
}

}  // namespace

ReduceFunction reduce_function_at(SimdLevel level, cc_dtype dtype, cc_redop op, bool last) {
  ReduceFunction function = nullptr;
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) function = reduce_function_avx512(dtype, op, last);
  if (level == SimdLevel::avx2) function = reduce_function_avx2(dtype, op, last);
#elif defined(__aarch64__)
  if (level == SimdLevel::neon) function = reduce_function_neon(dtype, op, last);
#else
  static_cast<void>(level);
#endif
  return function ? function : scalar(dtype, op, last);
}

ReduceFunction reduce_function(cc_dtype dtype, cc_redop op) {
  return reduce_function_at(simd_level(), dtype, op, false);
}

ReduceFunction last_reduce_function(cc_dtype dtype, cc_redop op) {
  return reduce_function_at(simd_level(), dtype, op, true);
}

}  // namespace ccore
