#include "collectives/all_reduce/all_reduce.h"

#include <algorithm>

#include "common/dtype.h"
#include "schedule/schedules.h"

namespace ccore {
namespace {

// Of a message between nodes: far more than a latency's worth on any network, and little beside all the data.
constexpr size_t kMessageBytes = 128 * 1024;
constexpr size_t kMostChunks = 32;

int chunks_for(size_t bytes, const Shape& shape) {
  const size_t messages = static_cast<size_t>(shape.least_local) * static_cast<size_t>(shape.nodes);
  return static_cast<int>(std::clamp<size_t>(bytes / messages / kMessageBytes, 1, kMostChunks));
}

Between schedule_of(Algorithm between) {
  switch (between) {
    case Algorithm::doubling:
      return Between::doubling;
    case Algorithm::direct:
      return Between::direct;
    case Algorithm::halving:
      return Between::halving;
    case Algorithm::double_tree:
      return Between::double_tree;
    default:
      return Between::ring;
  }
}

}  // namespace

void all_reduce_2d(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
  const Chooser& chooser = *context.chooser;
  const size_t bytes = count * dtype_size(dtype);
  const int chunks = chunks_for(bytes, chooser.shape);
  const Between between = schedule_of(choose_between(bytes, chooser.shape, chooser.overrides, chooser.model));
  all_reduce_scheduled(context, hierarchical_all_reduce(context.rank, *context.places, chunks, between), send, recv,
                       count, dtype, op);
}

}  // namespace ccore
