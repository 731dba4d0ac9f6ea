// Histograms in device memory, counted by warps, and the bin of the k-th largest or smallest element.
#pragma once

#include <cstdint>

namespace ccore_cuda::topk {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kBins = 8192;  // of a histogram of 13 bits

// Neighbouring elements often share a bin: one addition for all threads of a warp that are here with it.
__device__ __forceinline__ void count_one(uint32_t* bin) {
  const unsigned peers = __match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(bin));
  if ((threadIdx.x & 31) == static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1)) {
    atomicAdd(bin, static_cast<uint32_t>(__popc(peers)));
  }
}

__device__ __forceinline__ uint32_t scan_of_warp(uint32_t value) {
  const int lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t other = __shfl_up_sync(~0u, value, d);
    if (lane >= d) value += other;
  }
  return value;
}

// Every thread of the warp gets the result. GPUs from 8.0 on have an instruction for it.
__device__ __forceinline__ uint32_t max_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, value);
#else
  for (int d = 16; d > 0; d >>= 1) value = max(value, __shfl_xor_sync(~0u, value, d));
  return value;
#endif
}

__device__ __forceinline__ uint32_t sum_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, value);
#else
  for (int d = 16; d > 0; d >>= 1) value += __shfl_xor_sync(~0u, value, d);
  return value;
#endif
}

struct Bin {
  uint32_t number;
  uint32_t rank;   // of the element that is looked for, among those in the bin
  uint32_t count;  // elements in the bin
};

// The bin that holds the rank-th element, counted from the top or from the bottom; a bin counts its elements, or has a
// bit for each. All threads of the block call it.
template <uint32_t kCount, bool kFromTop, bool kMasks = false>
__device__ Bin find(const uint32_t* bins, uint32_t rank) {
  constexpr uint32_t kPer = kCount / kThreads;
  static_assert(kPer == 1 || kPer % 4 == 0, "bins are read by fours");
  __shared__ uint32_t warp_sums[kWarps];
  __shared__ Bin found;
  const uint32_t first = threadIdx.x * kPer;
  // In the order of the bins; the last bin is the first from the top.
  const uint32_t* const own = bins + (kFromTop ? kCount - kPer - first : first);
  uint32_t words[kPer], counts[kPer], sum = 0;
  if constexpr (kPer == 1) {
    words[0] = __ldcg(own);
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kPer; i += 4) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(own + i));
      words[i] = four.x;
      words[i + 1] = four.y;
      words[i + 2] = four.z;
      words[i + 3] = four.w;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kPer; ++i) {
    const uint32_t word = words[kFromTop ? kPer - 1 - i : i];
    counts[i] = kMasks ? static_cast<uint32_t>(__popc(word)) : word;
    sum += counts[i];
  }
  const uint32_t inclusive = scan_of_warp(sum);
  if ((threadIdx.x & 31) == 31) warp_sums[threadIdx.x / 32] = inclusive;
  if (threadIdx.x == 0) found = Bin{0, 0, 0};
  __syncthreads();
  uint32_t before = inclusive - sum;
  for (uint32_t w = 0; w < threadIdx.x / 32; ++w) before += warp_sums[w];
  if (before < rank && before + sum >= rank) {
    bool open = true;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) {
      if (open && before + counts[i] >= rank) {
        found = Bin{kFromTop ? kCount - 1 - (first + i) : first + i, rank - before, counts[i]};
        open = false;
      }
      before += counts[i];
    }
  }
  __syncthreads();
  const Bin result = found;
  __syncthreads();
  return result;
}

}  // namespace ccore_cuda::topk
