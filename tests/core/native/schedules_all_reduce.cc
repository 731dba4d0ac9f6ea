// The all-reduce schedules that use lanes, trees or places: proved on sets, for whole and for halved blocks.
#include <algorithm>
#include <string>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "prove.h"
#include "schedule/schedules.h"
#include "schedule/trees.h"
#include "symbolic.h"

namespace test {
namespace {

using ccore::Place;
using ccore::Schedule;

std::vector<Place> places_in(const std::vector<int>& node_of_rank) {
  std::vector<std::string> keys;
  for (const int node : node_of_rank) keys.push_back(std::to_string(node));
  return ccore::places_of(keys);
}

// Elements that leave each node for another one.
std::vector<size_t> sent_by_nodes(const std::vector<Schedule>& schedules, const std::vector<Place>& places,
                                  size_t count) {
  std::vector<size_t> sent(places.size());
  for (const Schedule& schedule : schedules) {
    const int from = places[static_cast<size_t>(schedule.rank)].node;
    for (const ccore::Step& step : schedule.steps) {
      if (step.send_peer == ccore::kNone || places[static_cast<size_t>(step.send_peer)].node == from) continue;
      sent[static_cast<size_t>(from)] += ccore::block_of(count, schedule.nblocks, step.send_block).count;
    }
  }
  return sent;
}

void two_dimensions(const std::string& what, const std::vector<Place>& places, int chunks) {
  const int p = static_cast<int>(places.size());
  const auto schedules = for_all(p, [&](int rank) { return hierarchical_all_reduce(rank, places, chunks); });
  prove(what, schedules);
  // The point of it: a node sends 2(m-1)/m of the data, whatever the number of its ranks.
  const int nodes = 1 + std::max_element(places.begin(), places.end(), [](const Place& a, const Place& b) {
                          return a.node < b.node;
                        })->node;
  const auto count = static_cast<size_t>(schedules[0].nblocks) * 6;
  const std::vector<size_t> sent = sent_by_nodes(schedules, places, count);
  for (int node = 0; node < nodes; ++node) {
    EXPECT(sent[static_cast<size_t>(node)] == 2 * static_cast<size_t>(nodes - 1) * count / static_cast<size_t>(nodes),
           what, ": node ", node, " sends ", sent[static_cast<size_t>(node)], " of ", count);
  }
}

// What else may run between the nodes. A pair of nodes has the same schedule in all of them.
void other_ways_between() {
  using ccore::Between;
  const auto prove_all = [](const std::string& what, const std::vector<Place>& places, int chunks) {
    const int p = static_cast<int>(places.size());
    for (const Between between : {Between::direct, Between::halving, Between::double_tree, Between::doubling}) {
      const std::string name = what + ", between " + std::to_string(static_cast<int>(between));
      const auto schedules =
          for_all(p, [&](int rank) { return hierarchical_all_reduce(rank, places, chunks, between); });
      const auto nodes =
          static_cast<size_t>(
              std::max_element(places.begin(), places.end(), [](Place a, Place b) { return a.node < b.node; })->node) +
          1;
      int exchanging = 1;  // of the nodes, the largest power of two
      while (static_cast<size_t>(2 * exchanging) <= nodes) exchanging *= 2;
      prove(name, schedules, between == Between::doubling ? exchanging : 1);
      if (between != Between::direct) continue;
      const size_t count = static_cast<size_t>(schedules[0].nblocks) * 6;
      for (const size_t sent : sent_by_nodes(schedules, places, count)) {
        EXPECT(sent == 0 || sent == 2 * (nodes - 1) * count / nodes, name, ": a node sends ", sent, " of ", count);
      }
    }
  };
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (int local = 1; nodes * local <= 18; ++local) {
      std::vector<int> blocked;
      std::vector<int> cyclic;
      for (int rank = 0; rank < nodes * local; ++rank) {
        blocked.push_back(rank / local);
        cyclic.push_back(rank % nodes);
      }
      const std::string size = std::to_string(nodes) + " nodes of " + std::to_string(local);
      prove_all(size, places_in(blocked), 2);
      prove_all(size + ", cyclic", places_in(cyclic), 1);
    }
  }
  for (const auto& node_of_rank : {std::vector<int>{0, 0, 0, 1, 1, 2}, {2, 0, 1, 1, 0, 0, 3}, {0, 1, 1, 1, 1}}) {
    prove_all("uneven nodes", places_in(node_of_rank), 3);
  }
}

void even_nodes() {
  for (int nodes = 1; nodes <= 64; ++nodes) {
    for (int local = 1; nodes * local <= 64; ++local) {
      std::vector<int> blocked;
      std::vector<int> cyclic;
      for (int rank = 0; rank < nodes * local; ++rank) {
        blocked.push_back(rank / local);
        cyclic.push_back(rank % nodes);
      }
      const std::string size = std::to_string(nodes) + " nodes of " + std::to_string(local);
      two_dimensions(size, places_in(blocked), 1);
      if (nodes * local > 16) continue;
      two_dimensions(size + ", chunks", places_in(blocked), 3);
      two_dimensions(size + ", cyclic", places_in(cyclic), 2);
    }
  }
}

// Every way to spread up to six ranks over up to three nodes, in any order, and larger uneven ones.
void uneven_nodes() {
  for (int p = 1; p <= 6; ++p) {
    int all = 1;
    for (int rank = 0; rank < p; ++rank) all *= 3;
    for (int code = 0; code < all; ++code) {
      std::vector<int> node_of_rank;
      for (int rank = 0, rest = code; rank < p; ++rank, rest /= 3) node_of_rank.push_back(rest % 3);
      two_dimensions("placement " + std::to_string(code) + " of " + std::to_string(p), places_in(node_of_rank), 2);
    }
  }
  for (const auto& sizes : {std::vector<int>{8, 7, 1}, {5, 5, 6}, {1, 15}, {2, 3, 4, 5}, {4, 4, 4, 3}}) {
    std::vector<int> node_of_rank;
    for (size_t node = 0; node < sizes.size(); ++node) {
      node_of_rank.insert(node_of_rank.end(), static_cast<size_t>(sizes[node]), static_cast<int>(node));
    }
    two_dimensions("uneven nodes", places_in(node_of_rank), 3);
    std::reverse(node_of_rank.begin(), node_of_rank.end());
    two_dimensions("uneven nodes, reversed", places_in(node_of_rank), 1);
  }
}

void flat(int p) {
  const std::string size = std::to_string(p) + " ranks";
  prove("halving, " + size, for_all(p, [=](int rank) { return ccore::halving_all_reduce(rank, p); }));
  prove("direct, " + size, for_all(p, [=](int rank) { return ccore::direct_all_reduce(rank, p); }));
  const std::vector<ccore::Tree> trees = ccore::double_binary_tree(p);
  for (const int chunks : {1, 4}) {
    prove("double tree, " + size, for_all(p, [&](int rank) { return tree_all_reduce(rank, trees, chunks); }));
  }
  // No rank has children in both trees, which is what spreads the work.
  for (int rank = 0; rank < p && p > 1; ++rank) {
    const auto inner = [&](const ccore::Tree& tree) {
      return std::count(tree.parent.begin(), tree.parent.end(), rank) > 0;
    };
    EXPECT(!(inner(trees[0]) && inner(trees[1])), "rank ", rank, " of ", p, " is inner in both trees");
  }
}

// The checks must be able to fail.
void broken_all_reduces_are_found() {
  const auto problem_of = [](const std::vector<Schedule>& schedules) { return run_from_full_input(schedules).problem; };
  auto schedules = for_all(4, [](int rank) { return ccore::direct_all_reduce(rank, 4); });
  schedules[1].steps.back().lane = 1;
  EXPECT(contains(problem_of(schedules), "in two lanes"), problem_of(schedules));
  schedules = for_all(4, [](int rank) { return ccore::halving_all_reduce(rank, 4); });
  const auto passed_on = std::find_if(schedules[2].steps.begin(), schedules[2].steps.end(),
                                      [](const ccore::Step& step) { return step.send_after != ccore::kNone; });
  passed_on->send_after = ccore::kNone;  // the input, of which the memory has become a sum
  EXPECT(contains(problem_of(schedules), "overwrites block"), problem_of(schedules));
  // Both ends of a link must agree on the order of what goes over it.
  const std::vector<ccore::Tree> trees = ccore::double_binary_tree(6);
  schedules = for_all(6, [&](int rank) { return tree_all_reduce(rank, trees, 2); });
  std::reverse(schedules[3].steps.begin(), schedules[3].steps.end());
  for (ccore::Step& step : schedules[3].steps) step.send_after = ccore::kNone;
  EXPECT(!problem_of(schedules).empty(), "another order was not noticed");
}

}  // namespace

void schedules_all_reduce() {
  broken_all_reduces_are_found();
  for (int p = 1; p <= 64; ++p) flat(p);
  even_nodes();
  uneven_nodes();
  other_ways_between();
}

}  // namespace test
