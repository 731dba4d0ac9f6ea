#include "collectives/all_to_all/all_to_all.h"

#include <cstring>

#include "collectives/links/stream.h"
#include "schedule/schedules.h"

namespace ccore {
namespace {

enum class Pairs { one_after_another, at_once };

void exchange(const Context& context, const void* send, const std::vector<Block>& out, void* recv,
              const std::vector<Block>& in, Pairs pairs) {
  const auto* input = static_cast<const std::byte*>(send);
  auto* output = static_cast<std::byte*>(recv);
  const auto rank = static_cast<size_t>(context.rank);
  if (in[rank].count > 0) std::memcpy(output + in[rank].begin, input + out[rank].begin, in[rank].count);
  std::vector<StreamStep> steps;
  for (const Step& step : pairwise_all_to_all(context.rank, context.nranks).steps) {
    const Block& leaves = out[static_cast<size_t>(step.send_peer)];
    const Block& comes = in[static_cast<size_t>(step.recv_peer)];
    StreamStep s;
    s.lane = pairs == Pairs::at_once ? static_cast<int>(steps.size()) : 0;
    s.send_peer = step.send_peer;
    s.send_from = leaves.count > 0 ? input + leaves.begin : nullptr;
    s.send_bytes = leaves.count;
    s.recv_peer = step.recv_peer;
    s.recv_to = comes.count > 0 ? output + comes.begin : nullptr;
    s.recv_bytes = comes.count;
    steps.push_back(s);
  }
  run_stream(context, steps, Reduction{});
}

}  // namespace

void all_to_all_pairwise(const Context& context, const void* send, const std::vector<Block>& out, void* recv,
                         const std::vector<Block>& in) {
  exchange(context, send, out, recv, in, Pairs::at_once);
}

void all_to_all_pairwise(const Context& context, const void* send, void* recv, size_t bytes) {
  std::vector<Block> blocks;
  for (size_t rank = 0; rank < static_cast<size_t>(context.nranks); ++rank)
    blocks.push_back(Block{rank * bytes, bytes});
  exchange(context, send, blocks, recv, blocks, Pairs::one_after_another);
}

}  // namespace ccore
