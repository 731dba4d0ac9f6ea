// Spanning trees packed into the links of known machines: trees they are, and they fill what they should.
#include "schedule/packing.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "common/error.h"
#include "expect.h"
#include "link_fixtures.h"
#include "prove.h"
#include "schedule/disjoint_trees.h"

namespace test {
namespace {

using ccore::Edge;
using ccore::LinkMatrix;
using ccore::Tree;

int shares_of(const std::vector<Tree>& trees) {
  int shares = 0;
  for (const Tree& tree : trees) shares += tree.share;
  return shares;
}

// Each reaches all ranks from one root, over links that there are.
void expect_spanning(const std::string& what, const std::vector<Tree>& trees, const LinkMatrix& links) {
  EXPECT(!trees.empty(), what);
  for (const Tree& tree : trees) {
    EXPECT(tree.share > 0, what, ": a share of ", tree.share);
    EXPECT(std::count(tree.parent.begin(), tree.parent.end(), ccore::kNone) == 1, what, ": not one root");
    for (int rank = 0; rank < links.nranks; ++rank) {
      int steps = 0;
      for (int at = rank; tree.parent[static_cast<size_t>(at)] != ccore::kNone; ++steps) {
        const int above = tree.parent[static_cast<size_t>(at)];
        EXPECT(links.between(at, above) > 0, what, ": no link between ", at, " and ", above);
        EXPECT(steps < links.nranks, what, ": rank ", rank, " never comes to the root");
        at = above;
      }
    }
  }
}

// What the schedules send over each link is the shares of the trees that use it, up and down; and the busiest link is as
// busy as seconds_per_gbyte says.
void expect_bytes_by_share(const std::string& what, const std::vector<Tree>& trees, const LinkMatrix& links) {
  const int p = links.nranks;
  const auto shares = static_cast<size_t>(shares_of(trees));
  const size_t count = shares * 12;
  std::map<std::pair<int, int>, size_t> sent;
  for (const ccore::Schedule& schedule : for_all(p, [&](int rank) { return tree_all_reduce(rank, trees, 2); })) {
    for (const ccore::Step& step : schedule.steps) {
      if (step.send_peer == ccore::kNone) continue;
      sent[{schedule.rank, step.send_peer}] += ccore::block_of(count, schedule.nblocks, step.send_block).count;
    }
  }
  std::map<std::pair<int, int>, size_t> expected;
  for (const Tree& tree : trees) {
    for (int rank = 0; rank < p; ++rank) {
      const int above = tree.parent[static_cast<size_t>(rank)];
      if (above == ccore::kNone) continue;
      for (const auto& way : {std::make_pair(rank, above), std::make_pair(above, rank)}) {
        expected[way] += static_cast<size_t>(tree.share) * count / shares;
      }
    }
  }
  EXPECT(sent == expected, what, ": a link carries another part than the shares of its trees");
  double busiest = 0;
  for (const auto& [way, elements] : sent) {
    busiest = std::max(
        busiest, static_cast<double>(elements) / static_cast<double>(count) / links.between(way.first, way.second));
  }
  EXPECT(std::abs(busiest / seconds_per_gbyte(trees, links) - 1) < 1e-9, what, ": ", busiest, " and ",
         seconds_per_gbyte(trees, links));
}

// No packing is faster than the links around any set of ranks, or all of them, allow.
double bound_of(const LinkMatrix& links) {
  double all = 0;
  double bound = 0;
  for (int rank = 0; rank < links.nranks; ++rank) {
    double around = 0;
    for (int other = 0; other < links.nranks; ++other) around += other == rank ? 0 : links.between(rank, other);
    bound = std::max(bound, 1 / around);
    all += around / 2;
  }
  return std::max(bound, (links.nranks - 1) / all);
}

std::vector<Tree> checked(const std::string& what, const LinkMatrix& links) {
  const std::vector<Tree> trees = ccore::pack_trees(links);
  expect_spanning(what, trees, links);
  if (links.nranks < 2) return trees;
  expect_bytes_by_share(what, trees, links);
  for (const int chunks : {1, 3}) {
    prove(what, for_all(links.nranks, [&](int rank) { return tree_all_reduce(rank, trees, chunks); }));
  }
  EXPECT(seconds_per_gbyte(trees, links) >= bound_of(links) * 0.999, what, " is faster than its links");
  return trees;
}

void stars_behind_a_switch() {
  for (int p = 2; p <= 16; ++p) {
    const std::vector<Tree> trees = checked("switch of " + std::to_string(p), switched(p, 450));
    EXPECT(trees.size() == static_cast<size_t>(p) || p == 2, trees.size(), " trees of ", p, " ranks");
    std::set<int> roots;
    for (const Tree& tree : trees) {
      EXPECT(tree.share == 1, "unequal shares");
      for (int rank = 0; rank < p; ++rank) {
        if (tree.parent[static_cast<size_t>(rank)] == ccore::kNone) roots.insert(rank);
      }
    }
    EXPECT(ccore::depth_of(trees) == 1 && roots.size() == trees.size(), "no stars");
  }
}

// Its 24 links of 25 GB/s are no less than what NCCL's rings use: three, each in both directions.
void hybrid_cube_mesh() {
  const std::vector<Tree> trees = checked("DGX-1V", dgx1v());
  const double of_all_links = 7 / (24 * 25.0);
  EXPECT(seconds_per_gbyte(trees, dgx1v()) <= of_all_links * 1.05, "it takes ", seconds_per_gbyte(trees, dgx1v()));
  EXPECT(ccore::depth_of(trees) <= 4 && shares_of(trees) <= 32, ccore::depth_of(trees), " deep, ", shares_of(trees));
  // The jobs that rings serve badly: some of the GPUs, which no ring of NVLinks joins.
  for (int p = 2; p <= 7; ++p) {
    const LinkMatrix links = dgx1v(p);
    const std::vector<Tree> some = checked(std::to_string(p) + " GPUs", links);
    EXPECT(seconds_per_gbyte(some, links) <= 1.25 * bound_of(links), p, " GPUs: ", seconds_per_gbyte(some, links),
           " of ", bound_of(links));
  }
  LinkMatrix broken = dgx1v();
  broken.gbytes_per_s[0 * 8 + 4] = 0;  // one direction of a link is as good as none
  for (const Tree& tree : checked("a link is down", broken)) {
    EXPECT(tree.parent[0] != 4 && tree.parent[4] != 0, "the dead link is used");
  }
}

// What is known to fill the rings of that machine is a packing in our terms too, and ours is faster and flatter.
void six_chains() {
  const LinkMatrix links = dgx1v();
  const std::vector<Tree> chains = dgx1v_chains();
  EXPECT(shares_of(chains) == 6 && ccore::depth_of(chains) == 7, shares_of(chains), " of depth ",
         ccore::depth_of(chains));
  std::map<std::pair<int, int>, int> lanes;
  for (const Tree& chain : chains) {
    std::set<int> above;
    for (int rank = 0; rank < 8; ++rank) {
      const int parent = chain.parent[static_cast<size_t>(rank)];
      if (parent == ccore::kNone) continue;
      EXPECT(above.insert(parent).second, "GPU ", parent, " has two below it: no chain");
      lanes[std::minmax(rank, parent)] += chain.share;
    }
  }
  // 16 links, 8 of them of two lanes: both directions of a ring take its lane, but for the one at which the chain ends.
  EXPECT(lanes.size() == 16, lanes.size(), " links");
  for (const auto& [link, share] : lanes) {
    EXPECT(share <= 2 * links.between(link.first, link.second) / 25, link.first, "-", link.second, ": ", share);
  }
  expect_spanning("six chains", chains, links);
  expect_bytes_by_share("six chains", chains, links);
  for (const int chunks : {1, 3}) {
    prove("six chains", for_all(8, [&](int rank) { return tree_all_reduce(rank, chains, chunks); }));
  }
  EXPECT(std::abs(seconds_per_gbyte(chains, links) * 75 - 1) < 1e-9, seconds_per_gbyte(chains, links));
  const std::vector<Tree> ours = ccore::pack_trees(links);
  EXPECT(seconds_per_gbyte(ours, links) < seconds_per_gbyte(chains, links), seconds_per_gbyte(ours, links));
  EXPECT(ccore::depth_of(ours) < ccore::depth_of(chains), ccore::depth_of(ours));
}

// Two pairs of GPUs below switches, which share a slower way to each other.
void pairs_below_switches() {
  LinkMatrix links = switched(4, 6);
  for (const size_t link : {1U, 4U, 11U, 14U}) links.gbytes_per_s[link] = 24;
  const std::vector<Tree> trees = checked("two pairs", links);
  // All that joins the pairs is 24, and every tree crosses it.
  EXPECT(seconds_per_gbyte(trees, links) <= 1.05 / 24, seconds_per_gbyte(trees, links));
}

void shares_follow_unequal_links() {
  // Over 1-2 and 2-3 one tree, over 1-3 the rest of another: no equal split comes near.
  const LinkMatrix links = ccore::parse_link_matrix("triangle", "X 40 20\n40 X 40\n20 40 X", 3);
  const std::vector<Tree> trees = checked("triangle", links);
  EXPECT(seconds_per_gbyte(trees, links) <= 1.05 / 50, seconds_per_gbyte(trees, links));
  // A chain is all there is.
  const LinkMatrix line = ccore::parse_link_matrix("line", "X 9 0 0\n9 X 3 0\n0 3 X 9\n0 0 9 X", 4);
  EXPECT(checked("line", line).size() == 1 && seconds_per_gbyte(checked("line", line), line) == 1.0 / 3, "a line");
}

void random_machines() {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const int p = 2 + static_cast<int>(random() % 7);
    LinkMatrix links = switched(p, 0);
    for (int a = 0; a < p; ++a) {
      for (int b = 0; b < a; ++b) {
        const bool needed = b == a - 1;  // so that all are joined
        const auto rate = static_cast<float>(random() % 4) * 7.5F + (needed ? 1.F : 0.F);
        links.gbytes_per_s[static_cast<size_t>(a * p + b)] = rate;
        links.gbytes_per_s[static_cast<size_t>(b * p + a)] = rate;
      }
    }
    checked("machine " + std::to_string(round), links);
  }
  const std::vector<Tree> alone = ccore::pack_trees(switched(1, 0));
  EXPECT(alone.size() == 1 && alone[0].parent.size() == 1, "one rank");
}

size_t disjoint(int nodes, const std::vector<Edge>& edges) {
  const auto trees = ccore::disjoint_spanning_trees(nodes, edges);
  std::set<int> used;
  for (const std::vector<int>& tree : trees) {
    EXPECT(tree.size() == static_cast<size_t>(nodes) - 1, "a tree of ", tree.size(), " edges");
    for (const int edge : tree) EXPECT(used.insert(edge).second, "edge ", edge, " is in two trees");
  }
  return trees.size();
}

void as_many_disjoint_trees_as_there_are() {
  for (int n = 2; n <= 12; ++n) {
    std::vector<Edge> complete;
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < a; ++b) complete.push_back(Edge{a, b});
    }
    // Known: a complete graph falls into Hamiltonian paths.
    EXPECT(disjoint(n, complete) == static_cast<size_t>(n / 2), n, " nodes: ", disjoint(n, complete));
  }
  EXPECT(disjoint(3, {{0, 1}, {1, 2}, {2, 0}}) == 1, "a triangle");
  EXPECT(disjoint(2, {{0, 1}, {1, 0}, {0, 1}}) == 3, "parallel edges");
  EXPECT(disjoint(4, {{0, 1}, {0, 1}, {1, 2}, {2, 3}, {2, 3}}) == 1, "a bridge");
  EXPECT(disjoint(3, {{0, 1}, {0, 1}}) == 0, "a node without an edge");
  EXPECT(disjoint(1, {}) == 0, "one node");
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    ccore::parse_link_matrix("links.txt", text, 2);
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_INVALID_ARGUMENT, error.what());
    EXPECT(std::string(error.what()).rfind("links.txt: ", 0) == 0 && contains(error.what(), part), error.what());
    return;
  }
  EXPECT(false, "taken: ", text);
}

void matrices_are_read_with_care() {
  const LinkMatrix links = ccore::parse_link_matrix("links.txt", "# two\n\nX 2.5  # here\n 1e1 0\n", 2);
  EXPECT(links.between(0, 1) == 2.5 && links.gbytes_per_s[2] == 10, "values");
  EXPECT(ccore::parse_link_matrix("again", text_of(links), 2) == links, "written and read");
  expect_refused("", "it has 0 rows, expected 2");
  expect_refused("X 1\n1 X\n1 1", "more than 2 rows");
  expect_refused("X 1 1\n1 X 1", "row 1 has 3 columns, expected 2");
  expect_refused("X fast\n1 X", "row 1, column 2: expected the link's 10^9 bytes per second, 0 for none, not 'fast'");
  expect_refused("X -1\n1 X", "row 1, column 2");
  expect_refused("X nan\n1 X", "row 1, column 2");
  expect_refused("X 1\n1 5", "row 2, column 2: expected X");
  expect_refused("X 1\n0 X", "no links lead from rank 0 to rank 1");
  EXPECT(part_of(dgx1v(), {7, 3}).between(0, 1) == 25, "a part");
  EXPECT(!ccore::reachable(part_of(dgx1v(), {0, 5}))[1], "no way");
}

}  // namespace

void packing() {
  as_many_disjoint_trees_as_there_are();
  matrices_are_read_with_care();
  stars_behind_a_switch();
  hybrid_cube_mesh();
  six_chains();
  pairs_below_switches();
  shares_follow_unequal_links();
  random_machines();
}

}  // namespace test
