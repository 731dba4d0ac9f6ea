// The first kernel of a selection: a sample of the vector guesses a magnitude that few more than k elements reach.
#pragma once

#include "topk/board.cuh"

namespace ccore_cuda::topk {
namespace {

constexpr int kBeginBlocks = 64;

// Where the counters that every selection starts with at zero begin; the sample is cleared by its last reader.
constexpr uint32_t kCleared = kCoarseBins + 2 * kBins + kThreads + 2 * kBins;

// Clears the board and guesses the floor from samples of the vector, one in each of `samples` equal parts.
__global__ void __launch_bounds__(kThreads) begin(Input in, uint32_t samples, uint32_t rank, Board* board) {
  // Counted in the block first: most samples fall into few bins, whose counters would be waited for.
  __shared__ uint32_t bins[kBins];
  for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
  __syncthreads();
  const uint32_t self = blockIdx.x * kThreads + threadIdx.x, stride = gridDim.x * kThreads;
  for (uint32_t sample = self; sample < samples; sample += stride) {
    const uint32_t part = in.count / samples;
    // Not at the same place of each part: rows of a matrix may be as long as a part.
    uint32_t mixed = sample * 2654435761u;
    mixed ^= mixed >> 15;
    mixed *= 2246822519u;
    mixed ^= mixed >> 13;
    atomicAdd(&bins[magnitude(load(in, sample * part + mixed % part)) >> kFloorShift], 1u);
  }
  uint32_t* const cleared = board->coarse;
  for (uint32_t i = self; i < kCleared; i += stride) cleared[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) {
    if (bins[i]) atomicAdd(&board->sample[i], bins[i]);
  }
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&board->begun, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (samples > 0) {
    const Bin bin = find<kBins, true>(board->sample, rank);
    for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) board->sample[i] = 0;
    // Every infinity and NaN is a candidate, so that the pass sees them.
    if (threadIdx.x == 0) board->floor = min(bin.number << kFloorShift, kInfiniteMagnitude);
  }
  if (threadIdx.x == 0) {
    board->found = board->largest = board->begun = board->arrived = board->emitted = 0;
    board->beneath = board->above = 0;
  }
}

}  // namespace
}  // namespace ccore_cuda::topk
