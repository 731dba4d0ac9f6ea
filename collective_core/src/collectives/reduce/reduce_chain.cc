#include "collectives/reduce/reduce.h"

#include <algorithm>

#include "collectives/links/stream.h"
#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {
namespace {

// A rank on the way keeps two blocks of this size, not the whole.
constexpr size_t kBlockBytes = 256 * 1024;

}  // namespace

void reduce_chain(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                  int root) {
  const size_t element = dtype_size(dtype);
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const int nblocks = static_cast<int>(std::max<size_t>(1, (count * element + kBlockBytes - 1) / kBlockBytes));
  const Schedule schedule =
      context.with_ranks(chain_reduce(context.place(), context.nranks, context.place_of(root), nblocks));
  const bool on_the_way = !schedule.steps.empty() && schedule.steps[0].send_after != kNone;
  const size_t largest = block_of(count, nblocks, 0).count * element;
  std::vector<std::byte> scratch(on_the_way ? 2 * largest : 0);
  std::vector<StreamStep> steps;
  for (int k = 0; k < static_cast<int>(schedule.steps.size()); ++k) {
    const Step& step = schedule.steps[static_cast<size_t>(k)];
    const Block block = block_of(count, nblocks, k);
    const size_t begin = block.begin * element;
    std::byte* partial = on_the_way ? scratch.data() + static_cast<size_t>(k % 2) * largest : nullptr;
    StreamStep s;
    s.send_peer = step.send_peer;
    s.send_from = on_the_way ? partial : input + begin;
    s.send_bytes = step.send_peer == kNone ? 0 : block.count * element;
    s.send_after = step.send_after;
    s.recv_peer = step.recv_peer;
    s.recv_to = on_the_way ? partial : output + (context.rank == root ? begin : 0);
    s.local = input + begin;
    s.recv_bytes = step.recv_peer == kNone ? 0 : block.count * element;
    s.action = step.action;
    s.completes = step.completes;
    // The sum of block k-2 was in the same place.
    s.recv_after_send = on_the_way && k >= 2 ? k - 2 : kNone;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element});
}

}  // namespace ccore
