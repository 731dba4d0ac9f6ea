#include "topk/collect_candidates.h"

#include "topk/board.cuh"

namespace ccore_cuda::topk {
namespace {

template <typename T>
__device__ __forceinline__ float4 load_four(const T* from, uint32_t group, bool wide);
template <>
__device__ __forceinline__ float4 load_four<float>(const float* from, uint32_t group, bool wide) {
  if (wide) return __ldcs(reinterpret_cast<const float4*>(from) + group);
  const float* p = from + static_cast<size_t>(group) * 4;
  return float4{__ldcs(p), __ldcs(p + 1), __ldcs(p + 2), __ldcs(p + 3)};
}
template <typename T>
__device__ __forceinline__ float4 load_four(const T* from, uint32_t group, bool wide) {
  union {
    uint2 bits;
    T values[4];
  } pack;
  const T* p = from + static_cast<size_t>(group) * 4;
  if (wide) {
    pack.bits = __ldcs(reinterpret_cast<const uint2*>(from) + group);
  } else {
    for (int i = 0; i < 4; ++i) pack.values[i] = p[i];
  }
  return float4{widen(pack.values[0]), widen(pack.values[1]), widen(pack.values[2]), widen(pack.values[3])};
}

__device__ __forceinline__ void store_four(float* to, uint32_t group, bool wide, float4 value) {
  if (wide) return __stcs(reinterpret_cast<float4*>(to) + group, value);
  float* p = to + static_cast<size_t>(group) * 4;
  __stcs(p, value.x);
  __stcs(p + 1, value.y);
  __stcs(p + 2, value.z);
  __stcs(p + 3, value.w);
}

// Blocks on a multiprocessor: as many as the registers allow.
constexpr int blocks_of_collect(bool adds) { return adds ? 2 : 3; }

constexpr int kGroups = 4;              // of four elements, by a thread at a time
constexpr uint32_t kBuffered = 192;     // candidates that a warp holds before it writes them to the list

// By selections: registers have no addresses.
__device__ __forceinline__ float element_of(const float4 (&groups)[kGroups], uint32_t i) {
  static_assert(kGroups == 4, "two bits choose a group");
  const float4 low = i & 4 ? groups[1] : groups[0], high = i & 4 ? groups[3] : groups[2];
  const float4 group = i & 8 ? high : low;
  const float first = i & 1 ? group.y : group.x, second = i & 1 ? group.w : group.z;
  return i & 2 ? second : first;
}

// One pass over the vector. Candidates go to the list and into the coarse histogram. The next residual is written as if all
// candidates were sent: those that are not are few, and finish() writes them again. kAdds: there is a residual.
template <typename T, bool kAdds>
__global__ void __launch_bounds__(kThreads, blocks_of_collect(kAdds))
    collect(Input in, bool wide, bool sum, Board* board, List list) {
  __shared__ uint32_t values[kWarps][kBuffered], indices[kWarps][kBuffered], coarse[kCoarseBins];
  for (uint32_t i = threadIdx.x; i < kCoarseBins; i += kThreads) coarse[i] = 0;
  __syncthreads();
  const T* gradient = static_cast<const T*>(in.gradient);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31, floor = board->floor;
  const float least = __uint_as_float(floor);
  uint32_t have = 0, largest = 0;
  double total = 0;

  const auto note = [&](uint32_t at, uint32_t value, uint32_t index) {
    const uint32_t key = value & kMagnitudeBits;
    largest = max(largest, key);
    if (at >= list.capacity) return;
    list.values[at] = value;
    list.indices[at] = index;
    atomicAdd(&coarse[min((key - floor) >> kFineBits, kCoarseBins - 1)], 1u);
  };
  const auto flush = [&] {
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&board->found, have);
    at = __shfl_sync(~0u, at, 0);
    for (uint32_t i = lane; i < have; i += 32) note(at + i, values[warp][i], indices[warp][i]);
    have = 0;
    __syncwarp();
  };

  const uint32_t groups = in.count / 4, stride = gridDim.x * kThreads * kGroups;
  for (uint32_t b = blockIdx.x * kThreads * kGroups; b < groups; b += stride) {
    float4 v[kGroups];
    uint32_t hits = 0;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
      v[j] = i < groups ? load_four<T>(gradient, i, wide) : float4{0, 0, 0, 0};
    }
    if (kAdds && in.residual) {
      float4 r[kGroups];
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
        r[j] = i < groups ? load_four<float>(in.residual, i, wide) : float4{0, 0, 0, 0};
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        v[j].x += r[j].x;
        v[j].y += r[j].y;
        v[j].z += r[j].z;
        v[j].w += r[j].w;
      }
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
      // Not less, instead of at least: so is NaN.
      uint32_t four = 0;
      if (!(fabsf(v[j].x) < least)) four |= 1;
      if (!(fabsf(v[j].y) < least)) four |= 2;
      if (!(fabsf(v[j].z) < least)) four |= 4;
      if (!(fabsf(v[j].w) < least)) four |= 8;
      if (i >= groups) four = 0;
      hits |= four << 4 * j;
      if (kAdds && in.next && i < groups) {
        float4 rest = v[j];
        if (four & 1) rest.x = rest_of(rest.x, in.half_values);
        if (four & 2) rest.y = rest_of(rest.y, in.half_values);
        if (four & 4) rest.z = rest_of(rest.z, in.half_values);
        if (four & 8) rest.w = rest_of(rest.w, in.half_values);
        store_four(in.next, i, wide, rest);
      }
      if (sum) {
        total += static_cast<double>(fabsf(v[j].x)) + static_cast<double>(fabsf(v[j].y));
        total += static_cast<double>(fabsf(v[j].z)) + static_cast<double>(fabsf(v[j].w));
      }
    }
    const uint32_t count = static_cast<uint32_t>(__popc(hits));
    if (!__any_sync(~0u, count)) continue;
    const uint32_t inclusive = scan_of_warp(count), all = __shfl_sync(~0u, inclusive, 31);
    if (have + all > kBuffered) flush();
    const bool direct = all > kBuffered;  // far more than the sample promised
    uint32_t at = inclusive - count + have;
    if (direct) {
      uint32_t start = 0;
      if (lane == 0) start = atomicAdd(&board->found, all);
      at += __shfl_sync(~0u, start, 0);
    }
    for (; hits != 0; hits &= hits - 1) {
      const auto j = static_cast<uint32_t>(__ffs(static_cast<int>(hits)) - 1);
      const uint32_t value = __float_as_uint(element_of(v, j));
      const uint32_t index = (b + j / 4 * kThreads + threadIdx.x) * 4 + j % 4;
      if (direct) {
        note(at, value, index);
      } else {
        values[warp][at] = value;
        indices[warp][at] = index;
      }
      ++at;
    }
    if (!direct) have += all;
    __syncwarp();
  }
  if (have) flush();
  if (blockIdx.x == 0 && threadIdx.x < in.count % 4) {
    const uint32_t i = groups * 4 + threadIdx.x;
    const float value = load(in, i);
    const bool hit = magnitude(value) >= floor;
    if (hit) note(atomicAdd(&board->found, 1u), __float_as_uint(value), i);
    if (kAdds && in.next) in.next[i] = hit ? rest_of(value, in.half_values) : value;
    if (sum) total += static_cast<double>(fabsf(value));
  }
  largest = max_of_warp(largest);
  if (lane == 0 && largest > 0) atomicMax(&board->largest, largest);
  if (sum) {
    __shared__ double totals[kWarps];
    for (int d = 16; d > 0; d >>= 1) total += __shfl_down_sync(~0u, total, d);
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kWarps; ++w) total += totals[w];
      board->sums[blockIdx.x] = total;
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kCoarseBins; i += kThreads) {
    if (coarse[i]) atomicAdd(&board->coarse[i], coarse[i]);
  }
}

template <typename T>
unsigned launch_collect(const Input& in, bool sum, Board* board, const List& list, cudaStream_t stream) {
  const auto is_aligned = [](const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; };
  const bool wide = is_aligned(in.gradient, 4 * sizeof(T)) && is_aligned(in.residual, 16) && is_aligned(in.next, 16);
  const bool adds = in.next || in.residual;
  const unsigned blocks = grid_of(blocks_of_collect(adds));
  const auto kernel = adds ? collect<T, true> : collect<T, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(in, wide, sum, board, list);
  return blocks;
}

}  // namespace

unsigned collect_candidates(const Input& in, bool sum, Board* board, const List& list, cudaStream_t stream) {
  switch (in.dtype) {
    case CC_FLOAT16:
      return launch_collect<__half>(in, sum, board, list, stream);
    case CC_BFLOAT16:
      return launch_collect<__nv_bfloat16>(in, sum, board, list, stream);
    default:
      return launch_collect<float>(in, sum, board, list, stream);
  }
}

}  // namespace ccore_cuda::topk
