// Prints what the schedules cost, for the test that holds docs/algorithms.md to it:
// algorithm, nodes, ranks, elements of the whole data, steps, elements sent by the busiest rank, by all ranks.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cases.h"
#include "collectives/all_reduce/all_reduce_cma.h"
#include "collectives/all_reduce/all_reduce_oneshot.h"
#include "collectives/all_reduce/all_reduce_twoshot.h"
#include "expect.h"
#include "node.h"
#include "schedule/broadcast.h"
#include "schedule/direct.h"
#include "schedule/dissemination.h"
#include "schedule/doubling.h"
#include "schedule/halving.h"
#include "schedule/hierarchical.h"
#include "schedule/packing.h"
#include "schedule/reduce.h"
#include "schedule/ring.h"
#include "schedule/symbolic.h"
#include "schedule/trees.h"

namespace test {
namespace {

using ccore::Schedule;
using ccore::SymbolicRun;

void print(const std::string& name, int p, size_t elements, const std::function<Schedule(int)>& make,
           const std::function<SymbolicRun(const std::vector<Schedule>&)>& run, int nodes = 1) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < p; ++rank) schedules.push_back(make(rank));
  size_t busiest = 0;
  size_t total = 0;
  for (const Schedule& schedule : schedules) {
    busiest = std::max(busiest, elements_sent(schedule, elements));
    total += elements_sent(schedule, elements);
  }
  const SymbolicRun result = run(schedules);
  EXPECT(result.problem.empty(), name, ": ", result.problem);
  std::printf("%s %d %d %zu %d %zu %zu\n", name.c_str(), nodes, p, elements, result.rounds, busiest, total);
}

using AllReduce = decltype(&ccore::all_reduce_oneshot);

// Those that need no schedule are run: posts are counted by their pairs of ranks, bytes by the links.
void print(const std::string& name, int p, size_t elements, AllReduce all_reduce) {
  const auto n = static_cast<size_t>(p);
  std::vector<size_t> posts(n);
  std::vector<size_t> sent(n);
  run_node(p, size_t{1} << 20, [&](const ccore::Context& context) {
    std::vector<unsigned char> data(elements);
    const auto rank = static_cast<size_t>(context.rank);
    all_reduce(context, data.data(), data.data(), elements, CC_UINT8, CC_SUM);
    for (int peer = 0; peer < p; ++peer) {
      if (peer != context.rank) posts[rank] = std::max<size_t>(posts[rank], context.arena->pair(peer).posts);
      sent[rank] += context.link(peer).payload_bytes_sent;
    }
  });
  std::printf("%s 1 %d %zu %zu %zu %zu\n", name.c_str(), p, elements, *std::max_element(posts.begin(), posts.end()),
              *std::max_element(sent.begin(), sent.end()), std::accumulate(sent.begin(), sent.end(), size_t{0}));
}

}  // namespace

void costs() {
  const auto from_root = [](const std::vector<Schedule>& schedules) {
    return ccore::run_from_root(schedules, 0);
  };
  for (int p = 1; p <= 64; ++p) {
    const size_t data = 960 * static_cast<size_t>(p);
    print(
        "all_reduce_doubling", p, data, [p](int rank) { return ccore::doubling_all_reduce(rank, p); },
        ccore::run_from_full_input);
    print(
        "all_reduce_ring", p, data, [p](int rank) { return ccore::ring_all_reduce(rank, p); },
        ccore::run_from_full_input);
    print(
        "all_reduce_halving", p, data, [p](int rank) { return ccore::halving_all_reduce(rank, p); },
        ccore::run_from_full_input);
    print(
        "all_reduce_direct", p, data, [p](int rank) { return ccore::direct_all_reduce(rank, p); },
        ccore::run_from_full_input);
    const std::vector<ccore::Tree> trees = ccore::double_binary_tree(p);
    print(
        "all_reduce_double_tree", p, data, [&](int rank) { return ccore::tree_all_reduce(rank, trees, 1); },
        ccore::run_from_full_input);
    const std::vector<ccore::Tree> stars = ccore::star_trees(p);
    print(
        "all_reduce_n_trees", p, data, [&](int rank) { return ccore::tree_all_reduce(rank, stars, 1); },
        ccore::run_from_full_input);
    for (int nodes = 1; nodes <= p; ++nodes) {
      if (p % nodes != 0) continue;
      std::vector<std::string> keys;
      for (int rank = 0; rank < p; ++rank) keys.push_back(std::to_string(rank / (p / nodes)));
      const std::vector<ccore::Place> places = ccore::places_of(keys);
      print(
          "all_reduce_2d", p, data, [&](int rank) { return ccore::hierarchical_all_reduce(rank, places, 1); },
          ccore::run_from_full_input, nodes);
    }
    print("all_reduce_oneshot", p, data, ccore::all_reduce_oneshot);
    print("all_reduce_twoshot", p, data, ccore::all_reduce_twoshot);
    print("all_reduce_cma", p, data, ccore::all_reduce_cma);
    print(
        "reduce_scatter_ring", p, data, [p](int rank) { return ccore::ring_reduce_scatter(rank, p); },
        ccore::run_from_full_input);
    print(
        "all_gather_ring", p, data, [p](int rank) { return ccore::ring_all_gather(rank, p); },
        ccore::run_from_own_block);
    print(
        "broadcast_chain", p, data, [p](int rank) { return ccore::chain_broadcast(rank, p, 0); }, from_root);
    print("broadcast_tree", p, data, [p](int rank) { return ccore::tree_broadcast(rank, p, 0); }, from_root);
    print(
        "reduce_chain", p, data, [p](int rank) { return ccore::chain_reduce(rank, p, 0, 1); },
        ccore::run_from_full_input);
    print(
        "reduce_tree", p, data, [p](int rank) { return ccore::tree_reduce(rank, p, 0); },
        ccore::run_from_full_input);
    print(
        "gather_direct", p, data, [p](int rank) { return ccore::direct_gather(rank, p, 0); },
        ccore::run_from_own_block);
    print("scatter_direct", p, data, [p](int rank) { return ccore::direct_scatter(rank, p, 0); }, from_root);
    print(
        "all_to_all_pairwise", p, data * static_cast<size_t>(p),
        [p](int rank) { return ccore::pairwise_all_to_all(rank, p); }, ccore::run_from_own_row);
    print(
        "barrier_dissemination", p, 1, [p](int rank) { return ccore::dissemination_barrier(rank, p); },
        ccore::run_tokens);
  }
}

}  // namespace test
