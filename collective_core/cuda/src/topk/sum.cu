#include <algorithm>

#include "error.h"
#include "topk/numbers.cuh"
#include "topk/sum.h"

namespace ccore_cuda::topk {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 1056;

struct Payload {
  const uint32_t* indices;
  const void* values;
  uint32_t kept;
  bool half;

  __device__ float value(uint32_t i) const {
    return half ? __half2float(static_cast<const __half*>(values)[i]) : static_cast<const float*>(values)[i];
  }
};

// An index occurs once in a payload, and payloads are added one after the other: no atomics, one order.
__global__ void __launch_bounds__(kThreads) add(Payload from, float* sums, uint32_t count, uint32_t* broken) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < from.kept; i += gridDim.x * kThreads) {
    const uint32_t index = from.indices[i];
    if (index < count) {
      sums[index] += from.value(i);
    } else {
      *broken = 1;
    }
  }
}

__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

// Visits each touched element once: the first to set its bit divides it, and moves it if it is summed elsewhere.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    settle(Payload from, float* sums, T* out, uint32_t count, float divisor, uint32_t* claims) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < from.kept; i += gridDim.x * kThreads) {
    const uint32_t index = from.indices[i], bit = 1u << index % 32;
    if (index >= count || (atomicOr(&claims[index / 32], bit) & bit)) continue;
    const float sum = sums[index] / divisor;
    if (static_cast<void*>(out) != static_cast<void*>(sums)) sums[index] = 0;
    store(out + index, sum);
  }
}

__global__ void __launch_bounds__(kThreads) forget(Payload from, uint32_t count, uint32_t* claims) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < from.kept; i += gridDim.x * kThreads) {
    const uint32_t index = from.indices[i];
    if (index < count) claims[index / 32] = 0;
  }
}

unsigned blocks_for(uint32_t kept) { return std::min((kept + kThreads - 1) / kThreads, kMostBlocks); }

Payload payload_of(const SparseSum& sum, size_t p) {
  const auto* words = static_cast<const uint32_t*>(sum.payloads[p]);
  return Payload{words + 2, words + 2 + sum.kept, sum.kept, sum.half_values};
}

template <typename T>
void settle_all(const SparseSum& sum, const SumScratch& scratch, float* sums, cudaStream_t stream) {
  const unsigned blocks = blocks_for(sum.kept);
  for (size_t p = 0; p < sum.payload_count; ++p) {
    settle<T><<<blocks, kThreads, 0, stream>>>(payload_of(sum, p), sums, static_cast<T*>(sum.out), sum.count,
                                               static_cast<float>(sum.divisor), scratch.claims);
  }
  for (size_t p = 0; p < sum.payload_count; ++p) {
    forget<<<blocks, kThreads, 0, stream>>>(payload_of(sum, p), sum.count, scratch.claims);
  }
}

}  // namespace

bool needs_sums(const SparseSum& sum) { return sum.dtype != CC_FLOAT32; }
bool needs_claims(const SparseSum& sum) { return needs_sums(sum) || sum.divisor > 1; }

void add_up(const SparseSum& sum, const SumScratch& scratch, cudaStream_t stream) {
  const size_t element = sum.dtype == CC_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
  check(cudaMemsetAsync(sum.out, 0, sum.count * element, stream), "clearing the sum of top-k payloads");
  float* const sums = needs_sums(sum) ? scratch.sums : static_cast<float*>(sum.out);
  for (size_t p = 0; p < sum.payload_count; ++p) {
    add<<<blocks_for(sum.kept), kThreads, 0, stream>>>(payload_of(sum, p), sums, sum.count, scratch.broken);
  }
  if (needs_claims(sum)) {
    switch (sum.dtype) {
      case CC_FLOAT16:
        settle_all<__half>(sum, scratch, sums, stream);
        break;
      case CC_BFLOAT16:
        settle_all<__nv_bfloat16>(sum, scratch, sums, stream);
        break;
      default:
        settle_all<float>(sum, scratch, sums, stream);
    }
  }
  check(cudaGetLastError(), "adding top-k payloads");
}

}  // namespace ccore_cuda::topk
