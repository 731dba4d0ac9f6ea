// Selection of the k largest magnitudes on the GPU. Pure of communication: the same input gives the same set.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "collective_core/collective_core.h"

namespace ccore_cuda::topk {

struct Input {
  const void* gradient;
  const float* residual;  // null: zeros
  float* next;            // null: no residual is wanted
  uint32_t count;
  cc_dtype dtype;
  bool half_values;
};

struct Output {
  uint32_t* header;  // {nonfinite, kept}
  uint32_t* indices;
  void* values;
};

// How a request is run: from sizes alone.
struct Plan {
  uint32_t kept;
  uint32_t samples;   // of the vector, to guess a floor; 0: no guess, all passes read the whole vector
  uint32_t rank;      // of the sample that becomes the floor, from the largest
  uint32_t capacity;  // of the list of candidates
  int samplings;      // of MSTopK; 0: exact
};
Plan plan_of(size_t count, size_t kept, int samplings);

// Counters and histograms between the kernels of one selection; all zero before the first.
struct Board;
size_t board_bytes();

struct Scratch {
  Board* board;
  uint32_t* values;   // of the candidates: capacity words each
  uint32_t* indices;
};

// Queues three kernels: a sample guesses a floor; one pass over the vector lists what reaches it; a grid whose blocks
// wait for each other selects from that list, or, if the guess was wrong, from the whole vector.
void select(const Input& input, const Plan& plan, const Scratch& scratch, const Output& output, cudaStream_t stream);

}  // namespace ccore_cuda::topk
