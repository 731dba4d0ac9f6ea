// All-reduce: every rank ends with the reduction of what all ranks have. recv may be send.
#pragma once

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::all_reduce).
void all_reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
                   cc_dtype dtype, cc_redop op);

// Over links.

// Recursive doubling: log2(p) steps, all the data in each; for messages whose time is latency.
void all_reduce_doubling(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op);

// 2(p-1) steps, 2(p-1)/p of the data over every link.
void all_reduce_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op);

// Halving and doubling: 2*log2(p) steps, 2(p-1)/p of the data from every rank where p is a power of two.
void all_reduce_halving(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

// The owner of each block receives it from all ranks and sends it back: two rounds.
void all_reduce_direct(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op);

// Over two complementary binary trees, each with half of the data: few steps for any number of ranks.
void all_reduce_double_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                            cc_redop op);

// Over as many spanning trees as the links are best used by, each with its share of the data: the trees of
// context.chooser, if it has any; else a star from every rank.
void all_reduce_n_trees(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

// Reduce-scatter within the nodes, rings (or what the user wishes) between them, all-gather within the nodes. Of all ranks of a communicator:
// context.places must be there.
void all_reduce_2d(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op);

// In the memory of a node; context.arena is not null.

// For little data: every rank reads the data of all others and reduces it by itself. Data that does not fit a slot area
// is reduced piece by piece.
void all_reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

// For much data: in place where all have registered their memory, else through the slots.
void all_reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

// For much data in any memory: two shots without slots. Each rank has the kernel copy its block of the others' inputs,
// reduces it, and has it copied into everyone's output ("cross memory attach"). context.cross_memory is not null.
// Where all buffers are registered, they are reached as they are mapped. Where the kernel does not copy from one of
// them, and where so much data is not in place that it had better pass the caches, all go through the slots. The same
// bits in each case.
void all_reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op);

// Of the algorithms over links.

// Of what goes up and down trees: small enough that a chunk is soon passed on, large enough that its bytes take longer
// than its latency.
constexpr size_t kTreeChunkBytes = 128 * 1024;

// Runs any all-reduce schedule on the user's memory. Partial results live in recv; no memory beside these.
void all_reduce_scheduled(const Context& context, const Schedule& schedule, const void* send, void* recv, size_t count,
                          cc_dtype dtype, cc_redop op);

}  // namespace ccore
