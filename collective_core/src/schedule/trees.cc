#include "schedule/trees.h"

#include <algorithm>
#include <tuple>

namespace ccore {
namespace {

// The lowest set bit of a place (from 1) is its height; odd places are leaves.
int parent_in_order(int place, int nplaces) {
  const int bit = place & -place;
  const int parent = (place ^ bit) | (2 * bit);
  return parent <= nplaces ? parent : place ^ bit;  // 0: the root
}

struct TreeMessage {
  int time;  // of the messages before it, plus one
  int tree;
  bool up;
  int chunk;
  int from;
  int to;

  bool operator<(const TreeMessage& other) const {
    return std::tie(time, tree, up, chunk, from, to) <
           std::tie(other.time, other.tree, other.up, other.chunk, other.from, other.to);
  }
};

// Every message of the tree that this rank sends or receives.
void add_messages(int rank, const Tree& tree, int number, int chunks, std::vector<TreeMessage>* messages) {
  const int nranks = static_cast<int>(tree.parent.size());
  const auto parent = [&](int node) { return tree.parent[static_cast<size_t>(node)]; };
  std::vector<int> height(tree.parent.size());
  std::vector<int> depth(tree.parent.size());
  for (int node = 0; node < nranks; ++node) {
    int steps = 0;
    for (int above = node; parent(above) != kNone; above = parent(above)) {
      int& of_parent = height[static_cast<size_t>(parent(above))];
      of_parent = std::max(of_parent, ++steps);
    }
    depth[static_cast<size_t>(node)] = steps;
  }
  const int highest = *std::max_element(height.begin(), height.end());
  for (int node = 0; node < nranks; ++node) {
    if (parent(node) == kNone || (node != rank && parent(node) != rank)) continue;
    for (int chunk = 0; chunk < tree.share * chunks; ++chunk) {
      const int start = chunk / tree.share;
      messages->push_back(
          TreeMessage{start + height[static_cast<size_t>(node)], number, true, chunk, node, parent(node)});
      messages->push_back(
          TreeMessage{start + highest + depth[static_cast<size_t>(node)], number, false, chunk, parent(node), node});
    }
  }
}

}  // namespace

std::vector<Tree> double_binary_tree(int nranks) {
  std::vector<Tree> trees(2, Tree{std::vector<int>(static_cast<size_t>(nranks), kNone)});
  // Mirrored, or, where that would leave the leaves leaves, shifted by one.
  const bool mirrors = nranks % 2 == 0;
  const auto rank_at = [&](int tree, int place) {
    if (tree == 0) return place - 1;
    return mirrors ? nranks - place : (place + nranks - 2) % nranks;
  };
  for (int tree = 0; tree < 2; ++tree) {
    for (int place = 1; place <= nranks; ++place) {
      const int parent = parent_in_order(place, nranks);
      if (parent == 0) continue;
      trees[static_cast<size_t>(tree)].parent[static_cast<size_t>(rank_at(tree, place))] = rank_at(tree, parent);
    }
  }
  return trees;
}

Schedule tree_all_reduce(int rank, const std::vector<Tree>& trees, int chunks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = static_cast<int>(trees[0].parent.size());
  std::vector<int> first_block;  // by tree
  schedule.nblocks = 0;
  for (const Tree& tree : trees) {
    first_block.push_back(schedule.nblocks);
    schedule.nblocks += tree.share * chunks;
  }
  std::vector<TreeMessage> messages;
  for (size_t tree = 0; tree < trees.size(); ++tree) {
    add_messages(rank, trees[tree], static_cast<int>(tree), chunks, &messages);
  }
  std::sort(messages.begin(), messages.end());
  std::vector<int> lane_of(static_cast<size_t>(schedule.nranks), kNone);
  int lanes = 0;
  std::vector<int> last(static_cast<size_t>(schedule.nblocks), kNone);  // the step that received the block
  std::vector<int> to_come(trees.size());  // children of this rank, by tree
  for (size_t tree = 0; tree < trees.size(); ++tree) {
    const std::vector<int>& parent = trees[tree].parent;
    to_come[tree] = static_cast<int>(std::count(parent.begin(), parent.end(), rank));
  }
  std::vector<int> folded(static_cast<size_t>(schedule.nblocks));
  for (const TreeMessage& message : messages) {
    const bool sends = message.from == rank;
    const int peer = sends ? message.to : message.from;
    const int block = first_block[static_cast<size_t>(message.tree)] + message.chunk;
    int& lane = lane_of[static_cast<size_t>(peer)];
    if (lane == kNone) lane = lanes++;
    Step step;
    step.lane = lane;
    if (sends) {
      step.send_peer = peer;
      step.send_block = block;
      step.send_after = last[static_cast<size_t>(block)];
    } else {
      step.recv_peer = peer;
      step.recv_block = block;
      if (message.up) {
        const auto tree = static_cast<size_t>(message.tree);
        const bool is_root = trees[tree].parent[static_cast<size_t>(rank)] == kNone;
        step.action = peer < rank ? Action::fold_below : Action::fold_above;
        step.completes = ++folded[static_cast<size_t>(block)] == to_come[tree] && is_root;
      }
      last[static_cast<size_t>(block)] = static_cast<int>(schedule.steps.size());
    }
    schedule.steps.push_back(step);
  }
  return schedule;
}

}  // namespace ccore
