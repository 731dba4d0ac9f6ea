#include "schedule/symbolic.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace ccore {
namespace {

using Counts = std::vector<int>;  // by contributor

struct Message {
  Counts counts;
  int block;
  int arrives;  // round
};

enum class Start { full_input, own_block, own_row, root_only, tokens };

class Simulator {
 public:
  Simulator(const std::vector<Schedule>& schedules, Start start, int root)
      : schedules_(schedules),
        start_(start),
        root_(root),
        p_(static_cast<int>(schedules.size())),
        ranks_(schedules.size()) {
    run_.holds.resize(schedules.size());
    for (int rank = 0; rank < p_; ++rank) {
      auto& blocks = run_.holds[at(rank)];
      for (int block = 0; block < schedules_[at(rank)].nblocks; ++block) blocks.push_back(input(rank, block));
    }
  }

  SymbolicRun run() {
    bool moved = true;
    while (moved && run_.problem.empty()) {
      moved = false;
      for (int rank = 0; rank < p_; ++rank) moved = try_send(rank) || moved;
      for (int rank = 0; rank < p_; ++rank) moved = try_recv(rank) || moved;
    }
    if (!run_.problem.empty()) return run_;
    for (int rank = 0; rank < p_; ++rank) {
      const auto steps = schedules_[at(rank)].steps.size();
      if (ranks_[at(rank)].send < steps || ranks_[at(rank)].recv < steps) {
        run_.problem = "rank " + std::to_string(rank) + " waits for ever";
        return run_;
      }
    }
    for (const auto& [link, message] : links_) {
      if (message) run_.problem = "a message to rank " + std::to_string(link.second) + " is never received";
    }
    return run_;
  }

 private:
  struct Cursor {
    size_t send = 0;
    size_t recv = 0;
    int send_free = 0;  // round after which the next send can start
    int recv_free = 0;
    std::vector<int> received_at;     // round, by step
    std::vector<Counts> value_after;  // of the received block, by step
  };

  static size_t at(int index) { return static_cast<size_t>(index); }

  Counts input(int rank, int block) const {
    Counts counts(schedules_.size(), 0);
    const bool has = start_ == Start::full_input || start_ == Start::tokens ||
                     (start_ == Start::own_block && block == rank) ||
                     (start_ == Start::own_row && block / p_ == rank) ||
                     (start_ == Start::root_only && rank == root_);
    if (has) counts[at(rank)] = 1;
    return counts;
  }

  bool try_send(int rank) {
    const Schedule& schedule = schedules_[at(rank)];
    Cursor& cursor = ranks_[at(rank)];
    if (cursor.send >= schedule.steps.size()) return false;
    const Step& step = schedule.steps[cursor.send];
    if (step.send_peer == kNone) {
      ++cursor.send;
      return true;
    }
    int ready = cursor.send_free;
    if (step.send_after != kNone) {
      if (cursor.recv <= at(step.send_after)) return false;
      if (schedule.steps[at(step.send_after)].recv_block != step.send_block) {
        run_.problem = "rank " + std::to_string(rank) + " sends a block other than the one it waited for";
        return false;
      }
      ready = std::max(ready, cursor.received_at[at(step.send_after)]);
    }
    auto& slot = links_[{rank, step.send_peer}];
    if (slot) return false;
    // What was there right after that step, not what is there by now: the real sender may be that early.
    const Counts counts =
        step.send_after == kNone ? input(rank, step.send_block) : cursor.value_after[at(step.send_after)];
    slot = std::make_unique<Message>(Message{counts, step.send_block, ready + 1});
    cursor.send_free = ready + 1;
    ++cursor.send;
    return true;
  }

  bool try_recv(int rank) {
    const Schedule& schedule = schedules_[at(rank)];
    Cursor& cursor = ranks_[at(rank)];
    if (cursor.recv >= schedule.steps.size()) return false;
    const Step& step = schedule.steps[cursor.recv];
    if (step.recv_peer != kNone) {
      auto& slot = links_[{step.recv_peer, rank}];
      if (!slot) return false;
      if (slot->block != step.recv_block) {
        run_.problem = "rank " + std::to_string(rank) + " expects block " + std::to_string(step.recv_block) +
                       " and gets block " + std::to_string(slot->block);
        return false;
      }
      Counts value = slot->counts;
      if (start_ == Start::tokens) {
        const Counts& known = run_.holds[at(rank)][at(step.recv_block)];
        for (size_t i = 0; i < value.size(); ++i) value[i] = std::max(value[i], known[i]);
      } else if (step.action != Action::copy) {
        const bool folds = step.action != Action::reduce;
        const Counts own = folds ? run_.holds[at(rank)][at(step.recv_block)] : input(rank, step.recv_block);
        for (size_t i = 0; i < value.size(); ++i) value[i] += own[i];
      }
      run_.holds[at(rank)][at(step.recv_block)] = value;
      cursor.recv_free = std::max(cursor.recv_free + 1, slot->arrives);
      run_.rounds = std::max(run_.rounds, cursor.recv_free);
      slot.reset();
    }
    cursor.received_at.push_back(cursor.recv_free);
    cursor.value_after.push_back(step.recv_peer != kNone ? run_.holds[at(rank)][at(step.recv_block)]
                                                         : Counts());
    ++cursor.recv;
    return true;
  }

  const std::vector<Schedule>& schedules_;
  Start start_;
  int root_;
  int p_;
  std::vector<Cursor> ranks_;
  std::map<std::pair<int, int>, std::unique_ptr<Message>> links_;
  SymbolicRun run_;
};

}  // namespace

SymbolicRun run_from_full_input(const std::vector<Schedule>& schedules) {
  return Simulator(schedules, Start::full_input, 0).run();
}
SymbolicRun run_from_own_block(const std::vector<Schedule>& schedules) {
  return Simulator(schedules, Start::own_block, 0).run();
}
SymbolicRun run_from_own_row(const std::vector<Schedule>& schedules) {
  return Simulator(schedules, Start::own_row, 0).run();
}
SymbolicRun run_from_root(const std::vector<Schedule>& schedules, int root) {
  return Simulator(schedules, Start::root_only, root).run();
}
SymbolicRun run_tokens(const std::vector<Schedule>& schedules) {
  return Simulator(schedules, Start::tokens, 0).run();
}

}  // namespace ccore
