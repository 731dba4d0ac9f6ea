#include "topk/select.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "topk/collect_candidates.h"
// Both kernels in one unit: they share find(), whose code nvcc fits to all of its callers.
#include "topk/finish.cuh"
#include "topk/sample_floor.cuh"

namespace ccore_cuda::topk {
namespace {

constexpr uint32_t kMostSamples = 65536;
constexpr uint32_t kLeastSampled = 1u << 18;  // shorter vectors cost little in several passes
constexpr uint32_t kLargestShare = 8;         // of the vector, 1/8 may be selected from a list

}  // namespace

size_t board_bytes() { return sizeof(Board); }

Plan plan_of(size_t count, size_t kept, int samplings) {
  Plan plan{static_cast<uint32_t>(kept), 0, 0, 0, samplings};
  if (count < kLeastSampled || kept > count / kLargestShare) return plan;
  plan.samples = static_cast<uint32_t>(std::min<size_t>(kMostSamples, count / 64 / kThreads * kThreads));
  const double hits = static_cast<double>(plan.samples) * static_cast<double>(kept) / static_cast<double>(count);
  // The hits of the sample vary by their square root.
  plan.rank = static_cast<uint32_t>(hits + 3.5 * std::sqrt(hits) + 5);
  const double expected = static_cast<double>(plan.rank) * static_cast<double>(count) / plan.samples;
  plan.capacity = static_cast<uint32_t>(std::min(static_cast<double>(count), 2 * expected + 65536));
  return plan;
}

void select(const Input& in, const Plan& plan, const Scratch& scratch, const Output& out, cudaStream_t stream) {
  begin<<<kBeginBlocks, kThreads, 0, stream>>>(in, plan.samples, plan.rank, scratch.board);
  const List list{scratch.values, scratch.indices, plan.capacity};
  unsigned blocks = 0;  // that have summed magnitudes
  if (plan.capacity > 0) blocks = collect_candidates(in, plan.samplings > 0, scratch.board, list, stream);
  // Blocks that have nothing to do only lengthen the barriers; a pass over the whole vector needs many loads under way.
  const uint32_t work = (in.count + 8 * kThreads - 1) / (8 * kThreads);
  cudaLaunchConfig_t config{};
  config.gridDim = std::min(work, grid_of(plan.capacity > 0 ? 1 : 2));
  config.blockDim = kThreads;
  config.stream = stream;
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, finish, in, list, blocks, plan.kept, plan.samplings, scratch.board, out),
        "starting a top-k selection");
  check(cudaGetLastError(), "starting a top-k selection");
}

}  // namespace ccore_cuda::topk
