#include "symbolic.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/index.h"

namespace test {
namespace {

using ccore::Action;
using ccore::at;
using ccore::block_of;
using ccore::kNone;
using ccore::Schedule;
using ccore::Step;
using ccore::Waits;

using Counts = std::vector<int>;  // by contributor

struct Message {
  Counts counts;
  int block;
  int arrives;  // round
};

enum class Start { full_input, own_block, own_row, root_only, tokens };

// Each rank acts as soon as it can; or sends come as late as can be, which finds memory that is written too early.
enum class Pace { eager, late_sends };

class Simulator {
 public:
  Simulator(const std::vector<Schedule>& schedules, Start start, int root, Pace pace)
      : schedules_(schedules), start_(start), root_(root), pace_(pace), p_(static_cast<int>(schedules.size())) {
    run_.holds.resize(schedules.size());
    links_.resize(schedules.size() * schedules.size());
    for (int rank = 0; rank < p_; ++rank) {
      const Schedule& schedule = schedules_[at(rank)];
      auto& blocks = run_.holds[at(rank)];
      for (int block = 0; block < schedule.nblocks; ++block) blocks.push_back(input(rank, block));
      ranks_.emplace_back(schedule);
      check_lanes(rank);
    }
  }

  SymbolicRun run() {
    int still = 0;  // passes without a move; with late sends every second rank may send in a pass
    for (int pass = 0; still < 2 && run_.problem.empty(); ++pass) {
      bool moved = false;
      if (pace_ == Pace::late_sends) {
        while (receive_all()) moved = true;
      }
      for (int rank = 0; rank < p_; ++rank) {
        if (pace_ == Pace::late_sends && (rank + pass) % 2 != 0) continue;
        for (LaneState& lane : ranks_[at(rank)].lanes) moved = try_send(rank, &lane) || moved;
      }
      moved = receive_all() || moved;
      still = moved ? 0 : still + 1;
    }
    if (!run_.problem.empty()) return run_;
    for (int rank = 0; rank < p_; ++rank) {
      for (const LaneState& lane : ranks_[at(rank)].lanes) {
        if (lane.send < lane.steps.size() || lane.recv < lane.steps.size()) {
          run_.problem = "rank " + std::to_string(rank) + " waits for ever";
          return run_;
        }
      }
    }
    for (size_t slot = 0; slot < links_.size(); ++slot) {
      if (!links_[slot]) continue;
      run_.problem = "a message to rank " + std::to_string(slot % schedules_.size()) + " is never received";
    }
    return run_;
  }

 private:
  struct LaneState {
    std::vector<size_t> steps;
    size_t send = 0;  // of steps
    size_t recv = 0;
    int send_began = 0;  // round before the current message
    int send_free = 0;   // round after which the next one can start
    int recv_free = 0;
  };
  struct RankState {
    explicit RankState(const Schedule& schedule)
        : waits(waits_of(schedule)),
          sent(schedule.steps.size()),
          received_at(schedule.steps.size(), kNone),
          value_after(schedule.steps.size()) {
      for (size_t k = 0; k < schedule.steps.size(); ++k) {
        const size_t lane = at(schedule.steps[k].lane);
        if (lane >= lanes.size()) lanes.resize(lane + 1);
        lanes[lane].steps.push_back(k);
      }
    }
    std::vector<LaneState> lanes;
    std::vector<Waits> waits;
    std::vector<bool> sent;           // by step
    std::vector<int> received_at;     // round, by step; kNone: not yet
    std::vector<Counts> value_after;  // of the received block, by step
  };

  Counts input(int rank, int block) const {
    Counts counts(schedules_.size(), 0);
    const bool has = start_ == Start::full_input || start_ == Start::tokens ||
                     (start_ == Start::own_block && block == rank) ||
                     (start_ == Start::own_row && block / p_ == rank) || (start_ == Start::root_only && rank == root_);
    if (has) counts[at(rank)] = 1;
    return counts;
  }

  void check_lanes(int rank) {
    std::map<std::pair<bool, int>, int> lane_of;
    for (const Step& step : schedules_[at(rank)].steps) {
      for (const bool sends : {false, true}) {
        const int peer = sends ? step.send_peer : step.recv_peer;
        if (peer == kNone || lane_of.emplace(std::make_pair(sends, peer), step.lane).first->second == step.lane) {
          continue;
        }
        run_.problem = "rank " + std::to_string(rank) + " uses a link in two lanes";
      }
    }
  }

  std::optional<Message>& link(int from, int to) { return links_[at(from) * schedules_.size() + at(to)]; }

  bool receive_all() {
    bool moved = false;
    for (int rank = 0; rank < p_; ++rank) {
      for (LaneState& lane : ranks_[at(rank)].lanes) moved = try_recv(rank, &lane) || moved;
    }
    return moved;
  }

  bool try_send(int rank, LaneState* lane) {
    if (lane->send >= lane->steps.size()) return false;
    RankState& state = ranks_[at(rank)];
    const size_t index = lane->steps[lane->send];
    const Step& step = schedules_[at(rank)].steps[index];
    if (step.send_peer != kNone) {
      if (!step.continues) lane->send_began = lane->send_free;
      int ready = lane->send_began;
      if (step.send_after != kNone) {
        const size_t source = at(step.send_after);
        if (state.received_at[source] == kNone) return false;
        if (schedules_[at(rank)].steps[source].recv_block != step.send_block) {
          run_.problem = "rank " + std::to_string(rank) + " sends a block other than the one it waited for";
          return false;
        }
        ready = std::max(ready, state.received_at[source]);
      }
      auto& slot = link(rank, step.send_peer);
      if (slot) return false;
      const Counts counts =
          step.send_after == kNone ? input(rank, step.send_block) : state.value_after[at(step.send_after)];
      // Reductions may run in place: what is sent is what is in memory by now.
      if (start_ == Start::full_input && counts != run_.holds[at(rank)][at(step.send_block)]) {
        run_.problem = "rank " + std::to_string(rank) + " overwrites block " + std::to_string(step.send_block) +
                       " before it has left";
        return false;
      }
      slot = Message{counts, step.send_block, ready + 1};
      lane->send_free = std::max(lane->send_free, ready + 1);
    }
    state.sent[index] = true;
    ++lane->send;
    return true;
  }

  bool try_recv(int rank, LaneState* lane) {
    if (lane->recv >= lane->steps.size()) return false;
    RankState& state = ranks_[at(rank)];
    const size_t index = lane->steps[lane->recv];
    const Step& step = schedules_[at(rank)].steps[index];
    if (step.recv_peer != kNone) {
      const Waits& waits = state.waits[index];
      if (waits.recv_after_send != kNone && !state.sent[at(waits.recv_after_send)]) return false;
      if (waits.recv_after_recv != kNone && state.received_at[at(waits.recv_after_recv)] == kNone) return false;
      auto& slot = link(step.recv_peer, rank);
      if (!slot) return false;
      if (slot->block != step.recv_block) {
        run_.problem = "rank " + std::to_string(rank) + " expects block " + std::to_string(step.recv_block) +
                       " and gets block " + std::to_string(slot->block);
        return false;
      }
      Counts value = slot->counts;
      Counts& held = run_.holds[at(rank)][at(step.recv_block)];
      if (start_ == Start::tokens) {
        for (size_t i = 0; i < value.size(); ++i) value[i] = std::max(value[i], held[i]);
      } else if (step.action != Action::copy) {
        const Counts own = step.action == Action::reduce ? input(rank, step.recv_block) : held;
        for (size_t i = 0; i < value.size(); ++i) value[i] += own[i];
      }
      held = value;
      lane->recv_free = std::max(lane->recv_free + (step.continues ? 0 : 1), slot->arrives);
      if (waits.recv_after_recv != kNone) {
        lane->recv_free = std::max(lane->recv_free, state.received_at[at(waits.recv_after_recv)]);
      }
      run_.rounds = std::max(run_.rounds, lane->recv_free);
      slot.reset();
      state.value_after[index] = std::move(value);
    }
    state.received_at[index] = lane->recv_free;
    ++lane->recv;
    return true;
  }

  const std::vector<Schedule>& schedules_;
  Start start_;
  int root_;
  Pace pace_;
  int p_;
  std::vector<RankState> ranks_;
  std::vector<std::optional<Message>> links_;  // by sender, then receiver
  SymbolicRun run_;
};

SymbolicRun simulate(const std::vector<Schedule>& schedules, Start start, int root) {
  SymbolicRun late = Simulator(schedules, start, root, Pace::late_sends).run();
  if (!late.problem.empty()) return late;
  return Simulator(schedules, start, root, Pace::eager).run();
}

}  // namespace

SymbolicRun run_from_full_input(const std::vector<Schedule>& schedules) {
  return simulate(schedules, Start::full_input, 0);
}
SymbolicRun run_from_own_block(const std::vector<Schedule>& schedules) {
  return simulate(schedules, Start::own_block, 0);
}
SymbolicRun run_from_own_row(const std::vector<Schedule>& schedules) { return simulate(schedules, Start::own_row, 0); }
SymbolicRun run_from_root(const std::vector<Schedule>& schedules, int root) {
  return simulate(schedules, Start::root_only, root);
}
SymbolicRun run_tokens(const std::vector<Schedule>& schedules) { return simulate(schedules, Start::tokens, 0); }

Schedule halved(const Schedule& schedule) {
  Schedule finer = schedule;
  finer.nblocks = 2 * schedule.nblocks;
  finer.steps.clear();
  for (const Step& step : schedule.steps) {
    for (int half = 0; half < 2; ++half) {
      Step part = step;
      if (step.send_peer != kNone) part.send_block = 2 * step.send_block + half;
      if (step.recv_peer != kNone) part.recv_block = 2 * step.recv_block + half;
      if (step.send_after != kNone) part.send_after = 2 * step.send_after + half;
      part.continues = step.continues || half > 0;
      finer.steps.push_back(part);
    }
  }
  return finer;
}

size_t elements_sent(const Schedule& schedule, size_t count) {
  size_t sent = 0;
  for (const Step& step : schedule.steps) {
    if (step.send_peer != kNone) sent += block_of(count, schedule.nblocks, step.send_block).count;
  }
  return sent;
}

}  // namespace test
