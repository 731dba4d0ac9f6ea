#include <cfloat>
#include <type_traits>

#include "error.h"
#include "kernels/element.cuh"
#include "tuning/compare.h"

namespace ccore_cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 64;

// The distance from 1 to the next number of the type.
template <typename T>
struct Epsilon {
  static constexpr double value = 0;  // of integers
};
template <>
struct Epsilon<double> {
  static constexpr double value = DBL_EPSILON;
};
template <>
struct Epsilon<float> {
  static constexpr double value = FLT_EPSILON;
};
template <>
struct Epsilon<__half> {
  static constexpr double value = 1.0 / 1024;
};
template <>
struct Epsilon<__nv_bfloat16> {
  static constexpr double value = 1.0 / 128;
};
template <>
struct Epsilon<Eight<ccore::E4M3>> {
  static constexpr double value = 1.0 / 8;
};
template <>
struct Epsilon<Eight<ccore::E5M2>> {
  static constexpr double value = 1.0 / 4;
};

__device__ __forceinline__ uint32_t scrambled(size_t index, int rank) {
  uint32_t bits = static_cast<uint32_t>(index) * 2654435761u ^ static_cast<uint32_t>(rank + 1) * 0x9e3779b9u;
  bits ^= bits >> 15;
  bits *= 0x846ca68bu;
  return bits ^ bits >> 13;
}

template <typename T>
__global__ void fill(T* data, size_t count, int rank) {
  using W = typename Wide<T>::type;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t bits = scrambled(i, rank);
    // Floats from 1 to 1.25: a product of 16 of them is below 36, and no sum cancels.
    if constexpr (Epsilon<T>::value > 0) {
      data[i] = Wide<T>::to(static_cast<W>(1) + static_cast<W>(bits & 1023) / static_cast<W>(4096));
    } else {
      data[i] = static_cast<T>(bits & 7);
    }
  }
}

template <typename T>
__device__ __forceinline__ bool same_bits(const T& one, const T& other) {
  const auto* a = reinterpret_cast<const unsigned char*>(&one);
  const auto* b = reinterpret_cast<const unsigned char*>(&other);
  bool same = true;
#pragma unroll
  for (size_t k = 0; k < sizeof(T); ++k) same = same && a[k] == b[k];
  return same;
}

template <typename T>
__global__ void compare(const T* one, const T* other, size_t count, bool rounds, int ranks, uint32_t* wrong) {
  uint32_t mine = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    bool right = same_bits(one[i], other[i]);
    if constexpr (Epsilon<T>::value > 0) {
      const double a = static_cast<double>(Wide<T>::from(one[i])), b = static_cast<double>(Wide<T>::from(other[i]));
      right = right || (rounds && fabs(a - b) <= 2 * ranks * Epsilon<T>::value * fmax(fabs(a), fabs(b)));
    }
    if (!right) ++mine;
  }
  if (mine != 0) atomicAdd_system(wrong, mine);
}

template <typename T>
struct Kernels {
  static void fill(void* data, size_t count, int rank, cudaStream_t stream) {
    T* typed = static_cast<T*>(data);
    void* parameters[] = {&typed, &count, &rank};
    launch(reinterpret_cast<const void*>(ccore_cuda::fill<T>), parameters, stream);
  }
  static void compare(const void* one, const void* other, size_t count, bool rounds, int ranks, uint32_t* wrong,
                      cudaStream_t stream) {
    const T *a = static_cast<const T*>(one), *b = static_cast<const T*>(other);
    void* parameters[] = {&a, &b, &count, &rounds, &ranks, &wrong};
    launch(reinterpret_cast<const void*>(ccore_cuda::compare<T>), parameters, stream);
  }
  static void load() {
    for (const void* kernel :
         {reinterpret_cast<const void*>(ccore_cuda::fill<T>), reinterpret_cast<const void*>(ccore_cuda::compare<T>)}) {
      cudaFuncAttributes attributes{};
      check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
    }
  }
  static void launch(const void* kernel, void** parameters, cudaStream_t stream) {
    check(cudaLaunchKernel(kernel, dim3(kBlocks), dim3(kThreads), parameters, 0, stream), "starting a kernel");
  }
};

struct OfType {
  decltype(&Kernels<float>::fill) fill;
  decltype(&Kernels<float>::compare) compare;
  decltype(&Kernels<float>::load) load;
};

template <typename T>
constexpr OfType of_type() {
  return {&Kernels<T>::fill, &Kernels<T>::compare, &Kernels<T>::load};
}

const OfType* kernels_of(cc_dtype dtype) {
  static constexpr OfType float64 = of_type<double>(), float32 = of_type<float>(), float16 = of_type<__half>(),
                          bfloat16 = of_type<__nv_bfloat16>(), int8 = of_type<int8_t>(), uint8 = of_type<uint8_t>(),
                          int32 = of_type<int32_t>(), uint32 = of_type<uint32_t>(), int64 = of_type<int64_t>(),
                          uint64 = of_type<uint64_t>(), e4m3 = of_type<Eight<ccore::E4M3>>(),
                          e5m2 = of_type<Eight<ccore::E5M2>>();
  switch (dtype) {
    case CC_FLOAT64:
      return &float64;
    case CC_FLOAT32:
      return &float32;
    case CC_FLOAT16:
      return &float16;
    case CC_BFLOAT16:
      return &bfloat16;
    case CC_INT8:
      return &int8;
    case CC_UINT8:
      return &uint8;
    case CC_INT32:
      return &int32;
    case CC_UINT32:
      return &uint32;
    case CC_INT64:
      return &int64;
    case CC_UINT64:
      return &uint64;
    case CC_FLOAT8_E4M3:
      return &e4m3;
    case CC_FLOAT8_E5M2:
      return &e5m2;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_compare(cc_dtype dtype) { return kernels_of(dtype) != nullptr; }

void load_compare_kernels() {
  for (int dtype = CC_FLOAT64; dtype <= CC_FLOAT8_E5M2; ++dtype) {
    if (const OfType* const kernels = kernels_of(static_cast<cc_dtype>(dtype))) kernels->load();
  }
}

void start_fill(void* data, size_t count, cc_dtype dtype, int rank, cudaStream_t stream) {
  kernels_of(dtype)->fill(data, count, rank, stream);
}

void start_compare(const void* one, const void* other, size_t count, cc_dtype dtype, bool rounds, int ranks,
                   uint32_t* wrong, cudaStream_t stream) {
  kernels_of(dtype)->compare(one, other, count, rounds, ranks, wrong, stream);
}

}  // namespace ccore_cuda
