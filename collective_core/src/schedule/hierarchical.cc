#include "schedule/schedules.h"

#include <algorithm>

#include "schedule/trees.h"

namespace ccore {
namespace {

constexpr int kWithin = 0;
constexpr int kBetween = 1;

Schedule between_nodes(Between between, int node, int nodes) {
  switch (between) {
    case Between::direct:
      return direct_all_reduce(node, nodes);
    case Between::halving:
      return halving_all_reduce(node, nodes);
    case Between::double_tree:
      return tree_all_reduce(node, double_binary_tree(nodes), 1);
    case Between::doubling:
      return doubling_all_reduce(node, nodes);
    case Between::ring:
      break;
  }
  return ring_all_reduce(node, nodes);
}

class HierarchicalBuilder {
 public:
  HierarchicalBuilder(int rank, const std::vector<Place>& places, int chunks, Between between) : chunks_(chunks) {
    const Place& own = places[static_cast<size_t>(rank)];
    for (size_t other = 0; other < places.size(); ++other) {
      const Place& place = places[other];
      nodes_ = std::max(nodes_, place.node + 1);
      rails_ = other == 0 ? place.local_size : std::min(rails_, place.local_size);
      if (place.node == own.node) local_.push_back(static_cast<int>(other));
    }
    node_ = own.node;
    place_ = own.local_rank;
    rail_.assign(static_cast<size_t>(nodes_), kNone);
    for (size_t other = 0; other < places.size(); ++other) {
      if (places[other].local_rank == place_) {
        rail_[static_cast<size_t>(places[other].node)] = static_cast<int>(other);
      }
    }
    schedule_.rank = rank;
    schedule_.nranks = static_cast<int>(places.size());
    between_ = between_nodes(between, node_, nodes_);
    parts_ = between_.nblocks;
    schedule_.nblocks = chunks_ * rails_ * parts_;
    whole_.assign(static_cast<size_t>(schedule_.nblocks), kNone);
  }

  // All chunks are scattered before the first is gathered: nothing then holds back what goes between the nodes.
  Schedule build() {
    for (int chunk = 0; chunk < chunks_; ++chunk) reduce_scatter(chunk);
    for (int chunk = 0; chunk < chunks_ && on_rail(place_); ++chunk) reduce_between(chunk);
    for (int chunk = 0; chunk < chunks_; ++chunk) all_gather(chunk);
    return schedule_;
  }

 private:
  int locals() const { return static_cast<int>(local_.size()); }
  int local(int place) const { return local_[static_cast<size_t>(place)]; }
  bool on_rail(int place) const { return place < rails_; }
  int block(int chunk, int rail, int part) const { return (chunk * rails_ + rail) * parts_ + part; }
  // The step after which this rank has of that block all that there is up to the stage.
  int& whole(int block) { return whole_[static_cast<size_t>(block)]; }

  int add(const Step& step) {
    schedule_.steps.push_back(step);
    return static_cast<int>(schedule_.steps.size()) - 1;
  }

  void reduce_scatter(int chunk) {
    for (int distance = 1; distance < locals(); ++distance) {
      const int to = (place_ + distance) % locals();
      const int from = (place_ - distance + locals()) % locals();
      for (int part = 0; part < parts_ && (on_rail(to) || on_rail(place_)); ++part) {
        Step step;
        step.lane = kWithin;
        step.continues = part > 0;
        if (on_rail(to)) {
          step.send_peer = local(to);
          step.send_block = block(chunk, to, part);
        }
        if (on_rail(place_)) {
          step.recv_peer = local(from);
          step.recv_block = block(chunk, place_, part);
          step.action = from < place_ ? Action::fold_below : Action::fold_above;
          step.completes = nodes_ == 1 && distance == locals() - 1;
        }
        const int index = add(step);
        if (on_rail(place_)) whole(step.recv_block) = index;
      }
    }
  }

  // The schedule between the nodes, with the ranks of this rail as its ranks and its blocks as parts of the rail's.
  void reduce_between(int chunk) {
    const auto first = static_cast<int>(schedule_.steps.size());
    for (const Step& inner : between_.steps) {
      Step step = inner;
      step.lane = kBetween + inner.lane;
      if (inner.send_peer != kNone) {
        step.send_peer = rail_[static_cast<size_t>(inner.send_peer)];
        step.send_block = block(chunk, place_, inner.send_block);
        step.send_after = inner.send_after == kNone ? whole(step.send_block) : first + inner.send_after;
      }
      if (inner.recv_peer != kNone) {
        step.recv_peer = rail_[static_cast<size_t>(inner.recv_peer)];
        step.recv_block = block(chunk, place_, inner.recv_block);
        // Its own input is what the node has summed up.
        if (inner.action == Action::reduce) step.action = Action::fold_below;
      }
      add(step);
    }
    // Only now: until then, a block that was not received is the node's sum.
    for (size_t k = 0; k < between_.steps.size(); ++k) {
      const Step& step = schedule_.steps[static_cast<size_t>(first) + k];
      if (step.recv_peer != kNone) whole(step.recv_block) = first + static_cast<int>(k);
    }
  }

  void all_gather(int chunk) {
    for (int distance = 1; distance < locals(); ++distance) {
      const int to = (place_ + distance) % locals();
      const int from = (place_ - distance + locals()) % locals();
      for (int part = 0; part < parts_ && (on_rail(place_) || on_rail(from)); ++part) {
        Step step;
        step.lane = kWithin;
        step.continues = part > 0;
        if (on_rail(place_)) {
          step.send_peer = local(to);
          step.send_block = block(chunk, place_, part);
          step.send_after = whole(step.send_block);
        }
        if (on_rail(from)) {
          step.recv_peer = local(from);
          step.recv_block = block(chunk, from, part);
        }
        add(step);
      }
    }
  }

  int chunks_;
  int nodes_ = 1;
  int parts_ = 1;  // of what a rail reduces
  int rails_ = 1;
  int node_ = 0;
  int place_ = 0;
  std::vector<int> local_;  // ranks of this node, by place
  std::vector<int> rail_;   // the rank at this place of each node
  std::vector<int> whole_;  // by block
  Schedule between_;        // of this node, among the nodes
  Schedule schedule_;
};

}  // namespace

Schedule hierarchical_all_reduce(int rank, const std::vector<Place>& places, int chunks, Between between) {
  return HierarchicalBuilder(rank, places, chunks, between).build();
}

}  // namespace ccore
