// Prints what the schedules cost, for the test that holds docs/algorithms.md to it:
// algorithm, nodes, ranks, elements of the whole data, steps, elements sent by the busiest rank, by all ranks.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cases.h"
#include "collectives/all_gather/all_gather.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/all_to_all/all_to_all.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/gather/gather.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce_scatter/reduce_scatter.h"
#include "collectives/scatter/scatter.h"
#include "expect.h"
#include "node.h"
#include "schedule/packing.h"
#include "schedule/schedules.h"
#include "schedule/trees.h"
#include "symbolic.h"

namespace test {
namespace {

using ccore::Schedule;

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

// Those that need no schedule are run.
struct NodeAlgorithm {
  const char* name;
  size_t elements;  // of the whole data
  std::function<void(const ccore::Context&, unsigned char* send, unsigned char* recv)> run;
};

// `share`: of each rank, in bytes.
std::vector<NodeAlgorithm> node_algorithms(int p, size_t share) {
  const size_t all = share * static_cast<size_t>(p);
  std::vector<ccore::Block> blocks;
  for (size_t rank = 0; rank < static_cast<size_t>(p); ++rank) blocks.push_back(ccore::Block{rank * share, share});
  std::vector<NodeAlgorithm> list;
  const auto all_reduce = [&](const char* name, decltype(&ccore::all_reduce_oneshot) f) {
    list.push_back({name, all, [=](const auto& c, auto* s, auto* r) { f(c, s, r, all, CC_UINT8, CC_SUM); }});
  };
  const auto reduce_scatter = [&](const char* name, decltype(&ccore::reduce_scatter_oneshot) f) {
    list.push_back({name, all, [=](const auto& c, auto* s, auto* r) { f(c, s, r, share, CC_UINT8, CC_SUM); }});
  };
  const auto reduce = [&](const char* name, decltype(&ccore::reduce_oneshot) f) {
    list.push_back({name, all, [=](const auto& c, auto* s, auto* r) { f(c, s, r, all, CC_UINT8, CC_SUM, 0); }});
  };
  const auto all_gather = [&](const char* name, decltype(&ccore::all_gather_oneshot) f) {
    list.push_back({name, all, [=](const auto& c, auto* s, auto* r) { f(c, s, r, blocks); }});
  };
  const auto rooted = [&](const char* name, size_t bytes, decltype(&ccore::broadcast_oneshot) f) {
    list.push_back({name, all, [=](const auto& c, auto* s, auto* r) { f(c, s, r, bytes, 0); }});
  };
  const auto all_to_all = [&](const char* name, decltype(&ccore::all_to_all_oneshot) f) {
    list.push_back({name, all * static_cast<size_t>(p), [=](const auto& c, auto* s, auto* r) { f(c, s, r, share); }});
  };
  all_reduce("all_reduce_oneshot", ccore::all_reduce_oneshot);
  all_reduce("all_reduce_twoshot", ccore::all_reduce_twoshot);
  all_reduce("all_reduce_cma", ccore::all_reduce_cma);
  reduce_scatter("reduce_scatter_oneshot", ccore::reduce_scatter_oneshot);
  reduce_scatter("reduce_scatter_cma", ccore::reduce_scatter_cma);
  all_gather("all_gather_oneshot", ccore::all_gather_oneshot);
  all_gather("all_gather_cma", ccore::all_gather_cma);
  rooted("broadcast_oneshot", all, ccore::broadcast_oneshot);
  rooted("broadcast_cma", all, ccore::broadcast_cma);
  reduce("reduce_oneshot", ccore::reduce_oneshot);
  reduce("reduce_twoshot", ccore::reduce_twoshot);
  reduce("reduce_cma", ccore::reduce_cma);
  rooted("gather_oneshot", share, ccore::gather_oneshot);
  rooted("gather_cma", share, ccore::gather_cma);
  rooted("scatter_oneshot", share, ccore::scatter_oneshot);
  rooted("scatter_cma", share, ccore::scatter_cma);
  all_to_all("all_to_all_oneshot", ccore::all_to_all_oneshot);
  all_to_all("all_to_all_cma", ccore::all_to_all_cma);
  return list;
}

// Posts are counted by the pairs of ranks, bytes by the links.
void print_node_algorithms(int p, size_t share) {
  const auto n = static_cast<size_t>(p);
  const std::vector<NodeAlgorithm> list = node_algorithms(p, share);
  std::vector<std::vector<size_t>> posts(list.size(), std::vector<size_t>(n));
  std::vector<std::vector<size_t>> sent = posts;
  run_node(p, size_t{1} << 20, [&](const ccore::Context& context) {
    std::vector<unsigned char> send(share * n);
    std::vector<unsigned char> recv(share * n);
    const auto rank = static_cast<size_t>(context.rank);
    std::vector<size_t> posts_before(n);
    size_t sent_before = 0;
    for (size_t one = 0; one < list.size(); ++one) {
      list[one].run(context, send.data(), recv.data());
      size_t sent_now = 0;
      for (int peer = 0; peer < p; ++peer) {
        if (peer == context.rank) continue;
        size_t& before = posts_before[static_cast<size_t>(peer)];
        posts[one][rank] = std::max<size_t>(posts[one][rank], context.arena->pair(peer).posts - before);
        before = context.arena->pair(peer).posts;
        sent_now += context.link(peer).payload_bytes_sent;
      }
      sent[one][rank] = sent_now - sent_before;
      sent_before = sent_now;
    }
  });
  for (size_t one = 0; one < list.size(); ++one) {
    std::printf("%s 1 %d %zu %zu %zu %zu\n", list[one].name, p, list[one].elements,
                *std::max_element(posts[one].begin(), posts[one].end()),
                *std::max_element(sent[one].begin(), sent[one].end()),
                std::accumulate(sent[one].begin(), sent[one].end(), size_t{0}));
  }
}

}  // namespace

void costs() {
  const auto from_root = [](const std::vector<Schedule>& schedules) { return run_from_root(schedules, 0); };
  for (int p = 1; p <= 64; ++p) {
    const size_t data = 960 * static_cast<size_t>(p);
    print(
        "all_reduce_doubling", p, data, [p](int rank) { return ccore::doubling_all_reduce(rank, p); },
        run_from_full_input);
    print("all_reduce_ring", p, data, [p](int rank) { return ccore::ring_all_reduce(rank, p); }, run_from_full_input);
    print(
        "all_reduce_halving", p, data, [p](int rank) { return ccore::halving_all_reduce(rank, p); },
        run_from_full_input);
    print(
        "all_reduce_direct", p, data, [p](int rank) { return ccore::direct_all_reduce(rank, p); }, run_from_full_input);
    const std::vector<ccore::Tree> trees = ccore::double_binary_tree(p);
    print(
        "all_reduce_double_tree", p, data, [&](int rank) { return ccore::tree_all_reduce(rank, trees, 1); },
        run_from_full_input);
    const std::vector<ccore::Tree> stars = ccore::star_trees(p);
    print(
        "all_reduce_n_trees", p, data, [&](int rank) { return ccore::tree_all_reduce(rank, stars, 1); },
        run_from_full_input);
    for (int nodes = 1; nodes <= p; ++nodes) {
      if (p % nodes != 0) continue;
      std::vector<std::string> keys;
      for (int rank = 0; rank < p; ++rank) keys.push_back(std::to_string(rank / (p / nodes)));
      const std::vector<ccore::Place> places = ccore::places_of(keys);
      print(
          "all_reduce_2d", p, data, [&](int rank) { return ccore::hierarchical_all_reduce(rank, places, 1); },
          run_from_full_input, nodes);
    }
    print_node_algorithms(p, 240);  // one chunk for any of these numbers of ranks
    print(
        "reduce_scatter_ring", p, data, [p](int rank) { return ccore::ring_reduce_scatter(rank, p); },
        run_from_full_input);
    print("all_gather_ring", p, data, [p](int rank) { return ccore::ring_all_gather(rank, p); }, run_from_own_block);
    print("broadcast_chain", p, data, [p](int rank) { return ccore::chain_broadcast(rank, p, 0); }, from_root);
    print("broadcast_tree", p, data, [p](int rank) { return ccore::tree_broadcast(rank, p, 0); }, from_root);
    print("reduce_chain", p, data, [p](int rank) { return ccore::chain_reduce(rank, p, 0, 1); }, run_from_full_input);
    print("reduce_tree", p, data, [p](int rank) { return ccore::tree_reduce(rank, p, 0); }, run_from_full_input);
    print("gather_direct", p, data, [p](int rank) { return ccore::direct_gather(rank, p, 0); }, run_from_own_block);
    print("scatter_direct", p, data, [p](int rank) { return ccore::direct_scatter(rank, p, 0); }, from_root);
    print(
        "all_to_all_pairwise", p, data * static_cast<size_t>(p),
        [p](int rank) { return ccore::pairwise_all_to_all(rank, p); }, run_from_own_row);
    print("barrier_dissemination", p, 1, [p](int rank) { return ccore::dissemination_barrier(rank, p); }, run_tokens);
  }
}

}  // namespace test
