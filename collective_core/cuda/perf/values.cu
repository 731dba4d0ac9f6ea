#include <type_traits>

#include "kernels/element.cuh"
#include "values.h"

namespace cuda_perf {
namespace {

using ccore_cuda::Eight;
using ccore_cuda::Wide;

__device__ uint32_t hash(uint32_t seed, int rank, uint64_t index) {
  uint32_t h = seed * 2654435761u ^ (static_cast<uint32_t>(index) + 0x9e3779b9u * static_cast<uint32_t>(rank + 1));
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  return h ^ h >> 16;
}

// Floats whose sum depends on the order, integers that wrap around.
template <typename T>
__device__ T value(uint32_t seed, int rank, uint64_t index) {
  const uint32_t h = hash(seed, rank, index);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(h);
  } else {
    return static_cast<T>(static_cast<double>(static_cast<int32_t>(h)) * 0x1p-29);
  }
}
template <>
__device__ __half value<__half>(uint32_t seed, int rank, uint64_t index) {
  return __float2half_rn(value<float>(seed, rank, index));
}
template <>
__device__ __nv_bfloat16 value<__nv_bfloat16>(uint32_t seed, int rank, uint64_t index) {
  return __float2bfloat16_rn(value<float>(seed, rank, index));
}
template <>
__device__ Eight<ccore::E4M3> value<Eight<ccore::E4M3>>(uint32_t seed, int rank, uint64_t index) {
  return Wide<Eight<ccore::E4M3>>::to(value<float>(seed, rank, index));
}
template <>
__device__ Eight<ccore::E5M2> value<Eight<ccore::E5M2>>(uint32_t seed, int rank, uint64_t index) {
  return Wide<Eight<ccore::E5M2>>::to(value<float>(seed, rank, index));
}

template <typename T>
__device__ bool same(T a, T b) {
  const auto* x = reinterpret_cast<const unsigned char*>(&a);
  const auto* y = reinterpret_cast<const unsigned char*>(&b);
  for (size_t i = 0; i < sizeof(T); ++i) {
    if (x[i] != y[i]) return false;
  }
  return true;
}

template <typename T>
__global__ void fill_kernel(T* to, size_t count, size_t first, uint32_t seed, int rank) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = value<T>(seed, rank, first + i);
  }
}

// ranks < 0: a copy of the value of rank -1 - ranks.
template <typename T>
__global__ void check_kernel(const T* got, size_t count, size_t first, cc_redop op, uint32_t seed, int ranks,
                             unsigned long long* wrong) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    T expected;
    if (ranks < 0) {
      expected = value<T>(seed, -1 - ranks, first + i);
    } else {
      auto sum = Wide<T>::from(value<T>(seed, 0, first + i));
      for (int rank = 1; rank < ranks; ++rank) {
        sum = ccore_cuda::combine(op, sum, Wide<T>::from(value<T>(seed, rank, first + i)));
      }
      if (op == CC_AVG) sum = sum / static_cast<decltype(sum)>(ranks);
      expected = Wide<T>::to(sum);
    }
    if (!same(got[i], expected)) atomicAdd(wrong, 1ull);
  }
}

template <typename Body>
void by_type(cc_dtype dtype, Body body) {
  switch (dtype) {
    case CC_FLOAT64:
      return body(double{});
    case CC_FLOAT32:
      return body(float{});
    case CC_FLOAT16:
      return body(__half{});
    case CC_BFLOAT16:
      return body(__nv_bfloat16{});
    case CC_INT8:
      return body(int8_t{});
    case CC_UINT8:
      return body(uint8_t{});
    case CC_INT32:
      return body(int32_t{});
    case CC_UINT32:
      return body(uint32_t{});
    case CC_INT64:
      return body(int64_t{});
    case CC_FLOAT8_E4M3:
      return body(Eight<ccore::E4M3>{});
    case CC_FLOAT8_E5M2:
      return body(Eight<ccore::E5M2>{});
    default:
      return body(uint64_t{});
  }
}

int grid(size_t count) { return static_cast<int>(count / 256 < 256 ? count / 256 + 1 : 256); }

}  // namespace

void fill(void* to, size_t count, size_t first, cc_dtype dtype, uint32_t seed, int rank, cudaStream_t stream) {
  by_type(dtype, [&](auto type) {
    using T = decltype(type);
    fill_kernel<T><<<grid(count), 256, 0, stream>>>(static_cast<T*>(to), count, first, seed, rank);
  });
}

void check_reduced(const void* got, size_t count, size_t first, cc_dtype dtype, cc_redop op, uint32_t seed, int ranks,
                   unsigned long long* wrong, cudaStream_t stream) {
  by_type(dtype, [&](auto type) {
    using T = decltype(type);
    check_kernel<T><<<grid(count), 256, 0, stream>>>(static_cast<const T*>(got), count, first, op, seed, ranks, wrong);
  });
}

void check_copied(const void* got, size_t count, size_t first, cc_dtype dtype, uint32_t seed, int rank,
                  unsigned long long* wrong, cudaStream_t stream) {
  check_reduced(got, count, first, dtype, CC_SUM, seed, -1 - rank, wrong, stream);
}

}  // namespace cuda_perf
