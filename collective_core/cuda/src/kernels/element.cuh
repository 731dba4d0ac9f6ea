// Elements of all types in 8 or 16 bytes: loaded, reduced in the order of the ranks, and stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "collective_core/collective_core.h"
#include "reduce/float8.h"

namespace ccore_cuda {

// An element in one of the formats of reduce/float8.h.
template <typename Format>
struct Eight {
  uint8_t bits;
};

// The type in which elements are added: fp32 for 8-bit and 16-bit floats, which would lose bits at every step.
template <typename T>
struct Wide {
  using type = T;
  static __device__ __forceinline__ T from(T value) { return value; }
  static __device__ __forceinline__ T to(T value) { return value; }
};
template <>
struct Wide<__half> {
  using type = float;
  static __device__ __forceinline__ float from(__half value) { return __half2float(value); }
  static __device__ __forceinline__ __half to(float value) { return __float2half_rn(value); }
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
  static __device__ __forceinline__ float from(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __forceinline__ __nv_bfloat16 to(float value) { return __float2bfloat16_rn(value); }
};
template <typename Format>
struct Wide<Eight<Format>> {
  using type = float;
  static __device__ __forceinline__ float from(Eight<Format> value) {
    return ccore::float8_to_f32<Format, float>(uint32_t{value.bits});
  }
  static __device__ __forceinline__ Eight<Format> to(float value) {
    return {static_cast<uint8_t>(ccore::f32_to_float8<Format, uint32_t>(value))};
  }
};

// NaN wins in minimum and maximum, as in the library for the host.
template <typename W>
__device__ __forceinline__ W combine(cc_redop op, W a, W b) {
  switch (op) {
    case CC_PROD:
      return static_cast<W>(a * b);
    case CC_MIN:
      return b < a || b != b ? b : a;
    case CC_MAX:
      return b > a || b != b ? b : a;
    default:
      return static_cast<W>(a + b);
  }
}

// kSum: the operator is a sum or an average, which the compiler then knows.
template <typename T, typename Bits, bool kSum>
class Accumulator {
 public:
  static constexpr int kElements = sizeof(Bits) / sizeof(T);

  __device__ __forceinline__ void start(const Bits& bits) {
    const Values values{bits};
#pragma unroll
    for (int k = 0; k < kElements; ++k) sum_[k] = Wide<T>::from(values.elements[k]);
  }
  __device__ __forceinline__ void add(cc_redop op, const Bits& bits) {
    const Values values{bits};
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const typename Wide<T>::type value = Wide<T>::from(values.elements[k]);
      sum_[k] = kSum ? static_cast<typename Wide<T>::type>(sum_[k] + value) : combine(op, sum_[k], value);
    }
  }
  __device__ __forceinline__ Bits result(cc_redop op, int ranks) {
    Values values;
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      if (op == CC_AVG)
        sum_[k] = static_cast<typename Wide<T>::type>(sum_[k] / static_cast<typename Wide<T>::type>(ranks));
      values.elements[k] = Wide<T>::to(sum_[k]);
    }
    return values.bits;
  }

 private:
  union Values {
    __device__ Values() {}
    __device__ explicit Values(const Bits& from) : bits(from) {}
    Bits bits;
    T elements[kElements];
  };
  typename Wide<T>::type sum_[kElements];
};

// Up to 8 bytes at an address that is aligned to T; `aligned`: to 8 bytes.
template <typename T>
__device__ __forceinline__ uint64_t load_elements(const T* from, size_t elements, bool aligned) {
  constexpr size_t kElements = 8 / sizeof(T);
  if (aligned && elements >= kElements) return *reinterpret_cast<const uint64_t*>(from);
  union {
    uint64_t bits;
    T values[kElements];
  } loaded;
  loaded.bits = 0;
#pragma unroll
  for (size_t k = 0; k < kElements; ++k) {
    if (k < elements) loaded.values[k] = from[k];
  }
  return loaded.bits;
}
template <typename T>
__device__ __forceinline__ void store_elements(T* to, uint64_t bits, size_t elements, bool aligned) {
  constexpr size_t kElements = 8 / sizeof(T);
  if (aligned && elements >= kElements) {
    *reinterpret_cast<uint64_t*>(to) = bits;
    return;
  }
  union {
    uint64_t bits;
    T values[kElements];
  } stored;
  stored.bits = bits;
#pragma unroll
  for (size_t k = 0; k < kElements; ++k) {
    if (k < elements) to[k] = stored.values[k];
  }
}

}  // namespace ccore_cuda
