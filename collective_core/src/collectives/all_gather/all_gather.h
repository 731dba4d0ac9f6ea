// All-gather: every rank ends with the blocks of all ranks. blocks[r]: where in recv what comes from rank r goes, in
// bytes.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::all_gather).
void all_gather_by(Algorithm algorithm, const Context& context, const void* send, void* recv,
                   const std::vector<Block>& blocks);

// p-1 steps, p-1 blocks over every link.
void all_gather_ring(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

// Inside a node: every rank writes its block into its slots, and reads the others' there. context.arena is not null.
void all_gather_oneshot(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

// Much data inside a node: every rank has the kernel copy the blocks of the others ("cross memory attach"); through
// slots where the kernel does not copy. context.arena and context.cross_memory are not null.
void all_gather_cma(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

// A value of every rank to all, by rank. T travels as bytes.
template <typename T>
std::vector<T> gather_all(const Context& context, const T& mine) {
  std::vector<T> all(static_cast<size_t>(context.nranks));
  std::vector<Block> blocks;
  for (size_t rank = 0; rank < all.size(); ++rank) blocks.push_back(Block{rank * sizeof(T), sizeof(T)});
  all_gather_ring(context, &mine, all.data(), blocks);
  return all;
}

}  // namespace ccore
