#include "collectives/all_reduce/all_reduce.h"

#include <algorithm>
#include <numeric>

#include "common/dtype.h"
#include "schedule/packing.h"

namespace ccore {
namespace {

constexpr size_t kMostBlocks = 256;  // of all trees

}  // namespace

void all_reduce_n_trees(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  const bool given = context.chooser && context.chooser->trees;
  const std::vector<Tree> trees = given ? *context.chooser->trees : star_trees(context.nranks);
  const size_t shares = std::accumulate(trees.begin(), trees.end(), size_t{0}, [](size_t sum, const Tree& tree) {
    return sum + static_cast<size_t>(tree.share);
  });
  const size_t most_chunks = std::max<size_t>(kMostBlocks / shares, 1);
  const size_t chunks = std::clamp<size_t>(count * dtype_size(dtype) / shares / kTreeChunkBytes, 1, most_chunks);
  all_reduce_scheduled(context, tree_all_reduce(context.rank, trees, static_cast<int>(chunks)), send, recv, count,
                       dtype, op);
}

}  // namespace ccore
