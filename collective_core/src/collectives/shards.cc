#include "collectives/shards.h"

#include <cstring>

#include "collectives/all_gather/all_gather.h"
#include "collectives/stream.h"
#include "common/dtype.h"
#include "reduce/kernels.h"

namespace ccore {

void sum_to_owners(const Context& context, int shards, const void* send, void* recv, size_t count,
                   cc_dtype dtype) {
  const size_t element = dtype_size(dtype);
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const int n = context.nranks;
  const int self = context.rank;
  const bool owner = self < shards;
  const Block own = owner ? block_of(count, shards, self) : Block{0, 0};
  if (n == 1) {
    if (input != output && count > 0) std::memcpy(output, input, count * element);
    return;
  }
  std::vector<StreamStep> steps;
  for (int k = 1; k < n; ++k) {
    StreamStep step;
    const int target = (self + k) % n;
    if (target < shards) {
      const Block part = block_of(count, shards, target);
      step.send_peer = target;
      step.send_from = input + part.begin * element;
      step.send_bytes = part.count * element;
    }
    if (owner) {
      step.recv_peer = (self + n - k) % n;
      step.recv_to = output + own.begin * element;
      step.local = (k == 1 ? input : output) + own.begin * element;
      step.recv_bytes = own.count * element;
      step.action = Action::reduce;
    }
    steps.push_back(step);
  }
  const ReduceFunction sum = reduce_function(dtype, CC_SUM);
  run_stream(context, steps, Reduction{sum, sum, element});
}

void gather_from_owners(const Context& context, int shards, void* recv, size_t count, cc_dtype dtype) {
  if (context.nranks == 1) return;
  const size_t element = dtype_size(dtype);
  std::vector<Block> blocks;
  for (int rank = 0; rank < context.nranks; ++rank) {
    const Block part = rank < shards ? block_of(count, shards, rank) : Block{0, 0};
    blocks.push_back(Block{part.begin * element, part.count * element});
  }
  const Block& own = blocks[static_cast<size_t>(context.rank)];
  all_gather_ring(context, static_cast<const std::byte*>(recv) + own.begin, recv, blocks);
}

}  // namespace ccore
