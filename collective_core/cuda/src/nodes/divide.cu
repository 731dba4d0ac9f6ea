#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "error.h"
#include "kernels/element.cuh"
#include "nodes/divide.h"

namespace ccore_cuda::nodes {
namespace {

constexpr unsigned kThreads = 512;
constexpr size_t kBlocks = 1056;

template <typename T>
__device__ T quotient(T value, int divisor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / divisor);  // the divisor may not fit the type
  } else {
    return Wide<T>::to(Wide<T>::from(value) / static_cast<typename Wide<T>::type>(divisor));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) divide_all(T* data, size_t count, int divisor) {
  const size_t stride = static_cast<size_t>(gridDim.x) * kThreads;
  for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    data[i] = quotient(data[i], divisor);
  }
}

template <typename T>
void launch(void* data, size_t count, int divisor, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kBlocks));
  divide_all<<<blocks, kThreads, 0, stream>>>(static_cast<T*>(data), count, divisor);
}

}  // namespace

void divide(void* data, size_t count, cc_dtype dtype, int divisor, cudaStream_t stream) {
  if (count == 0 || divisor == 1) return;
  switch (dtype) {
    case CC_FLOAT64:
      launch<double>(data, count, divisor, stream);
      break;
    case CC_FLOAT32:
      launch<float>(data, count, divisor, stream);
      break;
    case CC_FLOAT16:
      launch<__half>(data, count, divisor, stream);
      break;
    case CC_BFLOAT16:
      launch<__nv_bfloat16>(data, count, divisor, stream);
      break;
    case CC_INT8:
      launch<int8_t>(data, count, divisor, stream);
      break;
    case CC_UINT8:
      launch<uint8_t>(data, count, divisor, stream);
      break;
    case CC_INT32:
      launch<int32_t>(data, count, divisor, stream);
      break;
    case CC_UINT32:
      launch<uint32_t>(data, count, divisor, stream);
      break;
    case CC_INT64:
      launch<int64_t>(data, count, divisor, stream);
      break;
    case CC_UINT64:
      launch<uint64_t>(data, count, divisor, stream);
      break;
    case CC_FLOAT8_E4M3:
      launch<Eight<ccore::E4M3>>(data, count, divisor, stream);
      break;
    case CC_FLOAT8_E5M2:
      launch<Eight<ccore::E5M2>>(data, count, divisor, stream);
      break;
  }
  check(cudaGetLastError(), "dividing a sum");
}

}  // namespace ccore_cuda::nodes
