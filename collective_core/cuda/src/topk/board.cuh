// What the kernels of a selection share: counters and histograms, and the elements of the input.
#pragma once

#include "topk/grid.h"
#include "topk/histogram.cuh"
#include "topk/numbers.cuh"
#include "topk/select.h"

namespace ccore_cuda::topk {

// The floor is a multiple of 2^18, five bits of the mantissa: the candidates' distance from it has 13 low bits for
// the exact histogram, and 12 above them for the coarse one, which covers four octaves.
constexpr int kFloorShift = 18;
constexpr int kFineBits = 13;
constexpr uint32_t kCoarseBins = 4096;

struct Board {
  uint32_t floor;
  uint32_t found;     // candidates, those that the list had no room for included
  uint32_t largest;   // magnitude
  uint32_t begun;     // blocks of begin() that have ended
  uint32_t arrived;   // blocks at a barrier of finish(), over all of its barriers
  uint32_t emitted;
  uint32_t beneath;   // 1 + the largest magnitude below the k-th largest
  uint32_t above;     // elements at least as large as the upper end of MSTopK's band
  alignas(16) uint32_t sample[kBins];
  uint32_t coarse[kCoarseBins];
  uint32_t high[kBins];
  uint32_t fine[kBins];
  uint32_t low[kThreads];  // 32 bins, padded to a bin for each thread
  uint32_t places[kBins];  // elements of the band by the high bits of their indices
  uint32_t masks[kBins];   // those of one place, a bit each
  double sums[kMostBlocks];  // of magnitudes, by block
};

// The candidates, in device memory.
struct List {
  uint32_t* values;
  uint32_t* indices;
  uint32_t capacity;
};

__device__ __forceinline__ float load(const Input& in, uint32_t i) {
  float value;
  switch (in.dtype) {
    case CC_FLOAT16:
      value = widen(static_cast<const __half*>(in.gradient)[i]);
      break;
    case CC_BFLOAT16:
      value = widen(static_cast<const __nv_bfloat16*>(in.gradient)[i]);
      break;
    default:
      value = static_cast<const float*>(in.gradient)[i];
  }
  return in.residual ? value + in.residual[i] : value;
}

}  // namespace ccore_cuda::topk
