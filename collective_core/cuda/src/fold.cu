#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "error.h"
#include "fold.h"

namespace ccore_cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocks = 1024;  // of a grid that strides: enough for the memory of an H200

// The type in which elements are added: fp32 for 16-bit floats, which would lose bits at every step.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<__half> {
  using type = float;
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
};
template <typename T>
using WideOf = typename Wide<T>::type;

template <typename T>
__device__ WideOf<T> widen(T value) {
  return static_cast<WideOf<T>>(value);
}
template <typename T>
__device__ T narrow(WideOf<T> value) {
  return static_cast<T>(value);
}
template <>
__device__ float widen<__half>(__half value) {
  return __half2float(value);
}
template <>
__device__ __half narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ float widen<__nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// NaN wins in minimum and maximum, as in the library for the host.
struct Sum {
  template <typename W>
  __device__ static W combine(W a, W b) {
    return a + b;
  }
  template <typename W>
  __device__ static W finish(W a, int) {
    return a;
  }
};
struct Product {
  template <typename W>
  __device__ static W combine(W a, W b) {
    return a * b;
  }
  template <typename W>
  __device__ static W finish(W a, int) {
    return a;
  }
};
struct Minimum {
  template <typename W>
  __device__ static W combine(W a, W b) {
    return (b < a || b != b) ? b : a;
  }
  template <typename W>
  __device__ static W finish(W a, int) {
    return a;
  }
};
struct Maximum {
  template <typename W>
  __device__ static W combine(W a, W b) {
    return (b > a || b != b) ? b : a;
  }
  template <typename W>
  __device__ static W finish(W a, int) {
    return a;
  }
};
struct Average {
  template <typename W>
  __device__ static W combine(W a, W b) {
    return a + b;
  }
  template <typename W>
  __device__ static W finish(W a, int ranks) {
    return a / static_cast<W>(ranks);
  }
};

template <typename T>
union Pack {
  uint4 bits;
  T values[16 / sizeof(T)];
};

template <typename T, typename Op>
__global__ void fold_packs(Sources sources, T* target, size_t packs, int ranks) {
  constexpr int kPer = 16 / sizeof(T);
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += stride) {
    Pack<T> pack;
    pack.bits = static_cast<const uint4*>(sources.memory[0])[i];
    WideOf<T> sum[kPer];
    for (int k = 0; k < kPer; ++k) sum[k] = widen<T>(pack.values[k]);
    for (int s = 1; s < sources.count; ++s) {
      pack.bits = static_cast<const uint4*>(sources.memory[s])[i];
      for (int k = 0; k < kPer; ++k) sum[k] = Op::combine(sum[k], widen<T>(pack.values[k]));
    }
    for (int k = 0; k < kPer; ++k) pack.values[k] = narrow<T>(Op::finish(sum[k], ranks));
    reinterpret_cast<uint4*>(target)[i] = pack.bits;
  }
}

template <typename T, typename Op>
__global__ void fold_elements(Sources sources, T* target, size_t begin, size_t count, int ranks) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = begin + static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    WideOf<T> sum = widen<T>(static_cast<const T*>(sources.memory[0])[i]);
    for (int s = 1; s < sources.count; ++s)
      sum = Op::combine(sum, widen<T>(static_cast<const T*>(sources.memory[s])[i]));
    target[i] = narrow<T>(Op::finish(sum, ranks));
  }
}

unsigned grid(size_t work) {
  return static_cast<unsigned>(std::min<size_t>((work + kThreads - 1) / kThreads, kBlocks));
}

template <typename T, typename Op>
void launch(const Sources& sources, void* target, size_t count, int ranks, cudaStream_t stream) {
  T* const typed = static_cast<T*>(target);
  // Packs of 16 bytes need a target that is aligned to them; what remains goes element by element.
  const bool aligned = reinterpret_cast<uintptr_t>(target) % 16 == 0;
  const size_t packs = aligned ? count * sizeof(T) / 16 : 0;
  const size_t packed = packs * 16 / sizeof(T);
  if (packs) fold_packs<T, Op><<<grid(packs), kThreads, 0, stream>>>(sources, typed, packs, ranks);
  if (packed < count) {
    fold_elements<T, Op><<<grid(count - packed), kThreads, 0, stream>>>(sources, typed, packed, count, ranks);
  }
  check(cudaGetLastError(), "starting the reduction");
}

template <typename T>
void by_op(const Sources& sources, void* target, size_t count, cc_redop op, int ranks, cudaStream_t stream) {
  switch (op) {
    case CC_SUM:
      return launch<T, Sum>(sources, target, count, ranks, stream);
    case CC_PROD:
      return launch<T, Product>(sources, target, count, ranks, stream);
    case CC_MIN:
      return launch<T, Minimum>(sources, target, count, ranks, stream);
    case CC_MAX:
      return launch<T, Maximum>(sources, target, count, ranks, stream);
    default:
      return launch<T, Average>(sources, target, count, ranks, stream);
  }
}

}  // namespace

size_t element_bytes(cc_dtype dtype) {
  switch (dtype) {
    case CC_FLOAT64:
    case CC_INT64:
    case CC_UINT64:
      return 8;
    case CC_FLOAT32:
    case CC_INT32:
    case CC_UINT32:
      return 4;
    case CC_FLOAT16:
    case CC_BFLOAT16:
      return 2;
    case CC_INT8:
    case CC_UINT8:
      return 1;
    default:
      return 0;
  }
}

bool folds(cc_dtype dtype, cc_redop op) {
  if (element_bytes(dtype) == 0) return false;
  if (op == CC_AVG) {
    return dtype == CC_FLOAT64 || dtype == CC_FLOAT32 || dtype == CC_FLOAT16 || dtype == CC_BFLOAT16;
  }
  return op == CC_SUM || op == CC_PROD || op == CC_MIN || op == CC_MAX;
}

void fold(const Sources& sources, void* target, size_t count, cc_dtype dtype, cc_redop op, int ranks,
          cudaStream_t stream) {
  if (count == 0) return;
  switch (dtype) {
    case CC_FLOAT64:
      return by_op<double>(sources, target, count, op, ranks, stream);
    case CC_FLOAT32:
      return by_op<float>(sources, target, count, op, ranks, stream);
    case CC_FLOAT16:
      return by_op<__half>(sources, target, count, op, ranks, stream);
    case CC_BFLOAT16:
      return by_op<__nv_bfloat16>(sources, target, count, op, ranks, stream);
    case CC_INT8:
      return by_op<int8_t>(sources, target, count, op, ranks, stream);
    case CC_UINT8:
      return by_op<uint8_t>(sources, target, count, op, ranks, stream);
    case CC_INT32:
      return by_op<int32_t>(sources, target, count, op, ranks, stream);
    case CC_UINT32:
      return by_op<uint32_t>(sources, target, count, op, ranks, stream);
    case CC_INT64:
      return by_op<int64_t>(sources, target, count, op, ranks, stream);
    case CC_UINT64:
      return by_op<uint64_t>(sources, target, count, op, ranks, stream);
    default:
      throw Error(CC_ERROR_INVALID_ARGUMENT, "unknown data type");
  }
}

}  // namespace ccore_cuda
