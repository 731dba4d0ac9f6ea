#include "compress/topk_all_reduce.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "collectives/all_gather/all_gather.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/context.h"
#include "collectives/links/stream.h"
#include "collectives/subgroup.h"
#include "common/dtype.h"
#include "compress/payload.h"
#include "reduce/kernels.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

// The dense stages of a node around the exchange between nodes: the first ranks of the node own one part of the vector
// each, sum it over the node, and after the exchange give it to the others.

// Ranks 0 .. shards-1 of the context end with the sum over all its ranks of their own part in recv; the rest of
// recv is not written. Part s is block_of(count, shards, s). In place: send == recv. p-1 steps, no memory beside
// the buffers: each rank sends every other owner its part, and an owner adds them up in one order.
void sum_to_owners(const Context& context, int shards, const void* send, void* recv, size_t count, cc_dtype dtype) {
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

// All ranks end with all parts of recv, of which each owner has its own. A ring.
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

// The part of an operation that only the owners of shards have.
class Exchange {
 public:
  Exchange(const Context& context, const Rails& rails, const TopkSettings& settings, const std::byte* input,
           std::byte* shard, cc_dtype dtype, cc_redop op, Residual* residual)
      : whole_(context),
        rail_(context, rails.rail),
        settings_(settings),
        input_(input),
        shard_(shard),
        count_(residual->shape().shard),
        kept_(kept_of(count_, settings.ratio)),
        dtype_(dtype),
        op_(op),
        residual_(residual) {}

  bool accumulate() {
    return ccore::accumulate(input_, dtype_, residual_->values().data(), count_, settings_, simd_level(),
                             &residual_->scratch, residual_->next());
  }

  void run(bool finite) {
    const size_t bytes = payload_bytes(kept_, settings_.values);
    const auto nodes = static_cast<size_t>(rail_.context().nranks);
    residual_->payloads.resize(nodes * bytes);
    std::vector<Block> blocks;
    std::vector<const std::byte*> payloads;
    for (size_t node = 0; node < nodes; ++node) {
      blocks.push_back(Block{node * bytes, bytes});
      payloads.push_back(residual_->payloads.data() + node * bytes);
    }
    std::byte* own = residual_->payloads.data() + blocks[static_cast<size_t>(rail_.context().rank)].begin;
    if (finite) {
      compress(settings_, count_, &residual_->scratch, residual_->next(), own);
    } else {
      encode_nonfinite(kept_, settings_.values, own);
    }
    all_gather_ring(rail_.context(), own, residual_->payloads.data(), blocks);
    if (std::any_of(payloads.begin(), payloads.end(), is_nonfinite)) {
      return all_reduce_ring(rail_.context(), input_, shard_, count_, dtype_, op_);
    }
    decode_sum(payloads, kept_, settings_.values, op_ == CC_AVG ? whole_.average_over() : 1, dtype_, count_, shard_);
    residual_->commit();
  }

 private:
  const Context& whole_;
  Subgroup rail_;
  const TopkSettings& settings_;
  const std::byte* input_;  // may be shard_
  std::byte* shard_;
  size_t count_;
  size_t kept_;
  cc_dtype dtype_;
  cc_redop op_;
  Residual* residual_;
};

// All rails of a node send the same flag, so that all rails of the operation take the same way.
bool finite_on_node(const Context& local, bool finite_here) {
  if (local.nranks == 1) return finite_here;
  int32_t finite = finite_here ? 1 : 0;
  all_reduce_doubling(local, &finite, &finite, 1, CC_INT32, CC_MIN);
  return finite == 1;
}

}  // namespace

void topk_all_reduce(const Context& context, const Rails& rails, const TopkSettings& settings, const void* send,
                     void* recv, size_t count, cc_dtype dtype, cc_redop op, Residual* residual) {
  const Subgroup node(context, rails.local);
  const Context& local = node.context();
  const bool owner = !rails.rail.empty();
  const Block own = owner ? block_of(count, rails.shards, local.rank) : Block{0, 0};
  residual->take_shape(ResidualShape{count, dtype, own.begin, own.count});
  const bool alone = local.nranks == 1;  // its sum is what it has, and needs no copy
  if (!alone) sum_to_owners(local, rails.shards, send, recv, count, dtype);
  if (owner) {
    const size_t begin = own.begin * dtype_size(dtype);
    Exchange exchange(context, rails, settings, static_cast<const std::byte*>(alone ? send : recv) + begin,
                      static_cast<std::byte*>(recv) + begin, dtype, op, residual);
    exchange.run(finite_on_node(local, exchange.accumulate()));
  } else {
    finite_on_node(local, true);
  }
  gather_from_owners(local, rails.shards, recv, count, dtype);
}

}  // namespace ccore
