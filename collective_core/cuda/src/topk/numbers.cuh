// Elements of a vector that is selected from, as f32, and what of them is sent.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "collective_core/collective_core.h"

namespace ccore_cuda::topk {

// |x| as an integer, which has the order of the magnitudes; as src/compress/magnitude.h of the library for the host.
constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kInfiniteMagnitude = 0x7f800000;
constexpr float kLargestHalf = 65504.0f;

__device__ __forceinline__ uint32_t magnitude(float value) { return __float_as_uint(value) & kMagnitudeBits; }

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// Values on the wire: f32, or f16 that saturates.
__device__ __forceinline__ __half as_half(float value) {
  return __float2half_rn(fminf(fmaxf(value, -kLargestHalf), kLargestHalf));
}
// What the receivers do not get of a value that is sent.
__device__ __forceinline__ float rest_of(float value, bool half) {
  return half ? value - __half2float(as_half(value)) : 0.0f;
}

}  // namespace ccore_cuda::topk
