#include <algorithm>

#include "error.h"
#include "host/fold_from_host.h"
#include "kernels/element.cuh"

namespace ccore_cuda {
namespace {

constexpr int kThreads = 512;
// PCIe is full with them, and the rest of the GPU computes.
constexpr int kMostBlocksOfFold = 32;

// Host memory changes between kernels, so that nothing of it may come from a cache.
__device__ __forceinline__ uint4 load_host(const uint4* from) { return __ldcv(from); }
__device__ __forceinline__ uint64_t load_host(const uint64_t* from) {
  return __ldcv(reinterpret_cast<const unsigned long long*>(from));
}

template <typename T, bool kSum>
__global__ void __launch_bounds__(kThreads) fold_from_host(const __grid_constant__ FoldFromHost a) {
  constexpr size_t kPerPack = 16 / sizeof(T), kPerWord = 8 / sizeof(T);
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const T* const own = static_cast<const T*>(a.sources[a.rank]);
  T* const output = static_cast<T*>(a.output);
  const bool aligned = (reinterpret_cast<uintptr_t>(own) | reinterpret_cast<uintptr_t>(output)) % 16 == 0;
  const size_t packs = aligned ? a.count / kPerPack : 0;
  for (size_t i = first; i < packs; i += stride) {
    Accumulator<T, uint4, kSum> sum;
    for (int rank = 0; rank < a.size; ++rank) {
      const uint4* const source = static_cast<const uint4*>(a.sources[rank]) + i;
      const uint4 bits = rank == a.rank ? *source : load_host(source);
      if (rank == 0) {
        sum.start(bits);
      } else {
        sum.add(a.op, bits);
      }
    }
    const uint4 total = sum.result(a.op, a.size);
    reinterpret_cast<uint4*>(output)[i] = total;
    static_cast<uint4*>(a.result)[i] = total;
  }
  // What is not aligned, and the end.
  const size_t words = (a.count + kPerWord - 1) / kPerWord;
  for (size_t i = packs * 2 + first; i < words; i += stride) {
    const size_t at = i * kPerWord;
    Accumulator<T, uint64_t, kSum> sum;
    for (int rank = 0; rank < a.size; ++rank) {
      const uint64_t bits = rank == a.rank ? load_elements(own + at, a.count - at, false)
                                           : load_host(static_cast<const uint64_t*>(a.sources[rank]) + i);
      if (rank == 0) {
        sum.start(bits);
      } else {
        sum.add(a.op, bits);
      }
    }
    const uint64_t total = sum.result(a.op, a.size);
    store_elements(output + at, total, a.count - at, false);
    static_cast<uint64_t*>(a.result)[i] = total;
  }
}

template <typename T, bool kHasSum = true>
void start(const FoldFromHost& fold, cudaStream_t stream) {
  const size_t packs = fold.count * sizeof(T) / 16;
  const auto blocks = static_cast<unsigned>(std::clamp<size_t>(packs / kThreads, 1, kMostBlocksOfFold));
  if (kHasSum && (fold.op == CC_SUM || fold.op == CC_AVG)) {
    fold_from_host<T, kHasSum><<<blocks, kThreads, 0, stream>>>(fold);
  } else {
    fold_from_host<T, false><<<blocks, kThreads, 0, stream>>>(fold);
  }
  check(cudaGetLastError(), "starting the reduction");
}

}  // namespace

void start_fold_from_host(const FoldFromHost& fold, cc_dtype dtype, cudaStream_t stream) {
  switch (dtype) {
    case CC_FLOAT64:
      return start<double, false>(fold, stream);
    case CC_FLOAT32:
      return start<float>(fold, stream);
    case CC_FLOAT16:
      return start<__half>(fold, stream);
    case CC_BFLOAT16:
      return start<__nv_bfloat16>(fold, stream);
    case CC_INT8:
      return start<int8_t, false>(fold, stream);
    case CC_UINT8:
      return start<uint8_t, false>(fold, stream);
    case CC_INT32:
      return start<int32_t, false>(fold, stream);
    case CC_UINT32:
      return start<uint32_t, false>(fold, stream);
    case CC_INT64:
      return start<int64_t, false>(fold, stream);
    case CC_UINT64:
      return start<uint64_t, false>(fold, stream);
    case CC_FLOAT8_E4M3:
      return start<Eight<ccore::E4M3>, false>(fold, stream);
    case CC_FLOAT8_E5M2:
      return start<Eight<ccore::E5M2>, false>(fold, stream);
    default:
      throw Error(CC_ERROR_INVALID_ARGUMENT, "unknown data type");
  }
}

}  // namespace ccore_cuda
