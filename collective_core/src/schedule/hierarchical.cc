#include "schedule/schedules.h"

#include <algorithm>

namespace ccore {
namespace {

constexpr int kWithin = 0;
constexpr int kBetween = 1;

class HierarchicalBuilder {
 public:
  HierarchicalBuilder(int rank, const std::vector<Place>& places, int chunks) : chunks_(chunks) {
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
    schedule_.nblocks = chunks_ * rails_ * nodes_;
    whole_.assign(static_cast<size_t>(schedule_.nblocks), kNone);
  }

  // All chunks are scattered before the first is gathered: nothing then holds back what goes between the nodes.
  Schedule build() {
    for (int chunk = 0; chunk < chunks_; ++chunk) reduce_scatter(chunk);
    for (int chunk = 0; chunk < chunks_ && on_rail(place_); ++chunk) ring(chunk);
    for (int chunk = 0; chunk < chunks_; ++chunk) all_gather(chunk);
    return schedule_;
  }

 private:
  int locals() const { return static_cast<int>(local_.size()); }
  int local(int place) const { return local_[static_cast<size_t>(place)]; }
  bool on_rail(int place) const { return place < rails_; }
  int block(int chunk, int rail, int part) const { return (chunk * rails_ + rail) * nodes_ + part; }
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
      for (int part = 0; part < nodes_ && (on_rail(to) || on_rail(place_)); ++part) {
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

  // Part q starts at node q+1, is complete at node q and then goes round once more.
  void ring(int chunk) {
    const int next = rail_[static_cast<size_t>((node_ + 1) % nodes_)];
    const int previous = rail_[static_cast<size_t>((node_ + nodes_ - 1) % nodes_)];
    for (int k = 0; k < 2 * (nodes_ - 1); ++k) {
      const bool reduces = k < nodes_ - 1;
      const int first = node_ + 2 * nodes_ - 1 - k;  // in the second round too
      Step step;
      step.lane = kBetween;
      step.send_peer = next;
      step.send_block = block(chunk, place_, first % nodes_);
      step.send_after = whole(step.send_block);
      step.recv_peer = previous;
      step.recv_block = block(chunk, place_, (first - 1) % nodes_);
      step.action = reduces ? Action::fold_below : Action::copy;
      step.completes = k == nodes_ - 2;
      whole(step.recv_block) = add(step);
    }
  }

  void all_gather(int chunk) {
    for (int distance = 1; distance < locals(); ++distance) {
      const int to = (place_ + distance) % locals();
      const int from = (place_ - distance + locals()) % locals();
      for (int part = 0; part < nodes_ && (on_rail(place_) || on_rail(from)); ++part) {
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
  int rails_ = 1;
  int node_ = 0;
  int place_ = 0;
  std::vector<int> local_;  // ranks of this node, by place
  std::vector<int> rail_;   // the rank at this place of each node
  std::vector<int> whole_;  // by block
  Schedule schedule_;
};

}  // namespace

Schedule hierarchical_all_reduce(int rank, const std::vector<Place>& places, int chunks) {
  return HierarchicalBuilder(rank, places, chunks).build();
}

}  // namespace ccore
