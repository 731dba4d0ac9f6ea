// all_reduce that sends between nodes only the largest elements, and keeps the rest for the next time.
#pragma once

#include <cstddef>

#include "collectives/context.h"
#include "compress/residual.h"
#include "compress/topk_plan.h"

namespace ccore {

// Stages: the sum over each node to the owners of its shards; each owner's shard plus its residual, compressed;
// an all_gather of the payloads among the owners of a shard; their sum, in the order of the nodes; the shards to
// the ranks of each node. If any owner meets an infinity or NaN, then all owners exchange their shards densely
// and no residual changes. op: CC_SUM or CC_AVG. compresses() has said yes.
void topk_all_reduce(const Context& context, const Rails& rails, const TopkSettings& settings, const void* send,
                     void* recv, size_t count, cc_dtype dtype, cc_redop op, Residual* residual);

}  // namespace ccore
