// The schedules of all algorithms; those over trees are in trees.h. Each returns what one rank does.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "topology/node.h"

namespace ccore {

// Rings: every rank sends to the next one and receives from the one before.

// p-1 steps; afterwards block `rank` is complete on this rank.
Schedule ring_reduce_scatter(int rank, int nranks);
// p-1 steps; starts from block `rank`, ends with all.
Schedule ring_all_gather(int rank, int nranks);
// 2(p-1) steps: the reduce-scatter, then the all-gather of the complete blocks.
Schedule ring_all_reduce(int rank, int nranks);

// Between places that differ in one bit, for any number of ranks (powers.h).

// Recursive doubling: every rank ends with the whole after log2(p) exchanges of all the data. Those beyond the largest
// power of two hand their data to a neighbour before the exchanges and get the result after them. Ranks are folded in
// their order, so that all results have the same bits.
Schedule doubling_all_reduce(int rank, int nranks);
// Halving and doubling: a reduce-scatter by exchanges of ever smaller halves, then an all-gather backwards. The first
// and largest exchange is with the nearest rank, which is on the same node if any is (R. Rabenseifner, "Optimization of
// collective reduction operations", 2004).
Schedule halving_all_reduce(int rank, int nranks);

// Every block straight from its owner to its reader.

// Block r goes from rank r to the root.
Schedule direct_gather(int rank, int nranks, int root);
// Block r goes from the root to rank r.
Schedule direct_scatter(int rank, int nranks, int root);
// Every rank sends block b to rank b, which folds them in the order b-1, b-2, ... and sends the sum to all; in step
// k each time to the k-th rank after it. So no rank is sent to by two at once, and the sum has the same bits on all.
Schedule direct_all_reduce(int rank, int nranks);
// Block s*p+r goes from rank s to rank r; in step k a rank sends to the k-th after it and receives from the
// k-th before it.
Schedule pairwise_all_to_all(int rank, int nranks);

// In two dimensions: within the nodes, and between ranks of different nodes.

// What the ranks with the same part run between the nodes: one of the flat schedules above, or that of trees.h.
enum class Between { ring, direct, halving, double_tree, doubling };

// A part of every chunk is gathered on each of the first ranks of a node, as many as the smallest node has (the
// rails); those with the same part reduce it between the nodes; then each gives its part to its node. Between the
// nodes a ring carries 2(m-1)/m of the data for m nodes, whatever the number of ranks. Chunks overlap: the links
// within the nodes are lane 0, those between them the lanes above.
Schedule hierarchical_all_reduce(int rank, const std::vector<Place>& places, int chunks,
                                 Between between = Between::ring);

// From one rank to all, and from all to one.

// root -> root+1 -> ... : one step per rank, every link carries the data once, bytes flow on as they arrive.
Schedule chain_broadcast(int rank, int nranks, int root);
// Binomial tree: ceil(log2 p) rounds; for messages so small that only latency counts.
Schedule tree_broadcast(int rank, int nranks, int root);
// root-1 -> ... -> root, in nblocks blocks: each rank adds its own part to what passes; every link carries the
// data once.
Schedule chain_reduce(int rank, int nranks, int root, int nblocks);
// Binomial tree: ceil(log2 p) rounds; for messages so small that only latency counts. Ranks are folded in the
// order of their places after the root.
Schedule tree_reduce(int rank, int nranks, int root);

// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 p) rounds, one token each.
Schedule dissemination_barrier(int rank, int nranks);

}  // namespace ccore
