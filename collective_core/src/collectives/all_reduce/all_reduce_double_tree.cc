#include "collectives/all_reduce/all_reduce.h"

#include <algorithm>

#include "common/dtype.h"
#include "schedule/trees.h"

namespace ccore {
namespace {

constexpr size_t kMostChunksOfATree = 64;

}  // namespace

void all_reduce_double_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                            cc_redop op) {
  const size_t of_each_tree = count * dtype_size(dtype) / 2;
  const auto chunks = static_cast<int>(std::clamp<size_t>(of_each_tree / kTreeChunkBytes, 1, kMostChunksOfATree));
  all_reduce_scheduled(context,
                       context.with_ranks(tree_all_reduce(context.place(), double_binary_tree(context.nranks), chunks)),
                       send, recv, count, dtype, op);
}

}  // namespace ccore
