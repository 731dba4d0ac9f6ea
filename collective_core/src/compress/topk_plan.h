// What is decided before a top-k all_reduce moves a byte: from sizes alone, so that all ranks decide alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_core/collective_core.h"
#include "topology/node.h"

namespace ccore {

// cc_topk_options with the environment and the defaults filled in.
struct TopkSettings {
  double ratio = 0.01;
  size_t threshold_bytes = size_t{1} << 20;
  cc_topk_method method = CC_TOPK_EXACT;
  cc_dtype values = CC_FLOAT32;
  int samplings = 30;  // of MSTopK
};
TopkSettings topk_settings_from(const cc_topk_options* options);
// Differs where two settings would make different messages; travels in the operation's header.
uint64_t digest(const TopkSettings& settings);

// max(1, floor(ratio * count)), at most count.
size_t kept_of(size_t count, double ratio);

// How the ranks share the work: as many shards as the smallest node has ranks, shard s owned on every node by
// its rank of local number s. The owners of a shard are its rail.
struct Rails {
  int nodes = 1;
  int shards = 1;
  std::vector<int> local;  // the ranks of the own node, by local number
  std::vector<int> rail;   // the ranks of the own rail, by node; empty if this rank owns no shard
};
Rails rails_of(const std::vector<Place>& places, int rank);

// Whether `count` elements are compressed at all: there are two nodes or more, the data has at least
// threshold_bytes, and a rail sends less than for a dense ring all_reduce of the shard.
bool compresses(const TopkSettings& settings, const Rails& rails, size_t count, cc_dtype dtype);

}  // namespace ccore
