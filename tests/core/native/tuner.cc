// The tuner alone: ranks as threads that meet late and out of order, a clock that is set by hand, costs that
// are made up.
#include "tuner/tuner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "cases.h"
#include "common/error.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

using ccore::Candidate;
using ccore::Decision;
using ccore::PerfMode;
using ccore::Phase;
using ccore::Tuner;
using ccore::TunerKey;
using ccore::TunerSettings;

constexpr int kRanks = 4;
// The model expects 1 to be the best, and 9 to be hopeless.
const std::vector<Candidate> kCandidates = {{3, 140}, {1, 100}, {5, 120}, {7, 160}, {9, 5000}};
constexpr TunerKey kKey{1, 20, 1};
// At most: warm-up, eight calls of four candidates, 32 of three.
constexpr size_t kSearch = 3 + 4 * 8 + 3 * 32;
constexpr TunerKey kOther{2, 12, 0};

struct World {
  PerfMode mode = PerfMode::time;
  int operations = 2000;
  // Microseconds that a candidate takes on a rank in an operation, before noise.
  std::function<double(uint32_t candidate, int rank, int operation)> cost;
  double noise = 0;  // of the standard deviation, as a part of the cost
  // Microseconds that the program computes after an operation.
  std::function<double(int operation)> compute = [](int) { return 50.0; };
  std::function<TunerKey(int operation)> key = [](int) { return kKey; };
};

// A meeting in which every rank arrives a random moment late.
class Table {
 public:
  explicit Table(unsigned seed) : meeting_(kRanks), random_(seed) {}

  void arrive() {
    std::chrono::microseconds late{};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      late = std::chrono::microseconds(random_() % 60);
    }
    std::this_thread::sleep_for(late);
    meeting_.wait();
  }

  std::vector<double> worst;
  Decision decision;
  std::mutex& mutex() { return mutex_; }

 private:
  Meeting meeting_;
  std::mutex mutex_;
  std::mt19937 random_;
};

class Member : public ccore::Council {
 public:
  Member(Table* table, int rank) : table_(table), rank_(rank) {}
  bool leads() const override { return rank_ == 0; }

  void collect_worst(std::vector<double>* figures) override {
    table_->arrive();
    if (leads()) table_->worst.assign(figures->size(), 0);
    table_->arrive();
    {
      const std::lock_guard<std::mutex> lock(table_->mutex());
      for (size_t i = 0; i < figures->size(); ++i) table_->worst[i] = std::max(table_->worst[i], (*figures)[i]);
    }
    table_->arrive();
    if (leads()) *figures = table_->worst;
  }

  void follow(Decision* decision) override {
    ++decisions;
    if (leads()) table_->decision = *decision;
    table_->arrive();
    *decision = table_->decision;
  }

  int decisions = 0;

 private:
  Table* table_;
  int rank_;
};

struct Trace {
  std::vector<uint32_t> taken;  // by operation
  std::vector<ccore::TunerRow> rows;
  int decisions = 0;
  double share = 0;
};

TunerSettings settings_for(PerfMode mode) {
  TunerSettings settings;
  settings.enabled = 1;
  settings.mode = mode;
  settings.window_calls = 64;
  return settings;
}

Trace run_rank(const World& world, Table* table, int rank) {
  Trace trace;
  int64_t now_ns = 1000 * rank;  // clocks of different machines
  std::mt19937 random(static_cast<unsigned>(17 + rank));
  std::normal_distribution<double> noise(1, world.noise);
  Tuner tuner(settings_for(world.mode), [&] { return now_ns; });
  Member member(table, rank);
  for (int operation = 0; operation < world.operations; ++operation) {
    const uint32_t taken =
        tuner.begin(world.key(operation), static_cast<uint64_t>(operation) + 1, &member, [] { return kCandidates; });
    trace.taken.push_back(taken);
    now_ns += static_cast<int64_t>(1000 * world.cost(taken, rank, operation) * std::max(0.1, noise(random)));
    tuner.end();
    now_ns += static_cast<int64_t>(1000 * world.compute(operation));
  }
  trace.rows = tuner.rows();
  trace.decisions = member.decisions;
  trace.share = tuner.share();
  return trace;
}

// What rank 0 saw; that the others saw the same is expected here.
Trace simulate(const World& world, unsigned seed = 1) {
  Table table(seed);
  std::vector<Trace> traces(kRanks);
  run_threads(kRanks, [&](int rank) { traces[static_cast<size_t>(rank)] = run_rank(world, &table, rank); });
  for (size_t rank = 1; rank < kRanks; ++rank) {
    const auto [mine, other] =
        std::mismatch(traces[0].taken.begin(), traces[0].taken.end(), traces[rank].taken.begin());
    EXPECT(mine == traces[0].taken.end(), "rank ", rank, " differs from rank 0 from operation ",
           mine - traces[0].taken.begin() + 1, " on");
    EXPECT(traces[rank].decisions == traces[0].decisions, "rank ", rank);
  }
  EXPECT(traces[0].decisions > 0, "nothing was ever decided");
  return traces[0];
}

double fixed_cost(uint32_t candidate) {
  const std::map<uint32_t, double> us = {{1, 100}, {3, 60}, {5, 80}, {7, 300}, {9, 5000}};
  return us.at(candidate);
}

// The first operation from which on only `candidate` was taken.
size_t settled_at(const std::vector<uint32_t>& taken, uint32_t candidate) {
  size_t at = taken.size();
  while (at > 0 && taken[at - 1] == candidate) --at;
  return at;
}

size_t switches_after(const std::vector<uint32_t>& taken, size_t begin) {
  size_t count = 0;
  for (size_t i = begin + 1; i < taken.size(); ++i) count += taken[i] != taken[i - 1];
  return count;
}

void converges() {
  for (const PerfMode mode : {PerfMode::time, PerfMode::filter, PerfMode::profile}) {
    for (const unsigned seed : {1u, 2u}) {
      World world;
      world.mode = mode;
      world.operations = 400;
      world.noise = 0.05;
      world.cost = [](uint32_t candidate, int, int) { return fixed_cost(candidate); };
      const Trace trace = simulate(world, seed);
      EXPECT(settled_at(trace.taken, 3) <= kSearch, name_of(mode), ": settled at ", settled_at(trace.taken, 3));
      EXPECT(trace.taken.front() == 1, "the first is the model's");
      EXPECT(std::count(trace.taken.begin(), trace.taken.end(), 9u) == 0, "the hopeless one was tried");
      EXPECT(std::count(trace.taken.begin(), trace.taken.end(), 7u) == 8, "the filter lets pass what is far behind");
      EXPECT(trace.rows.size() == 1 && trace.rows[0].phase == Phase::fixed && trace.rows[0].choice == 3, "");
      EXPECT(trace.share > 0.4 && trace.share < 0.7, trace.share);
    }
  }
}

void outliers_do_not_mislead_the_filter_mode() {
  World world;
  world.mode = PerfMode::filter;
  world.operations = 200;
  world.cost = [](uint32_t candidate, int, int) { return fixed_cost(candidate); };
  // A checkpoint, and another mean for each candidate.
  world.compute = [](int operation) { return operation % 17 == 3 ? 20000.0 : 50.0; };
  EXPECT(settled_at(simulate(world).taken, 3) <= kSearch, "did not settle");
}

void the_slowest_rank_counts() {
  World world;
  world.operations = 200;
  world.cost = [](uint32_t candidate, int rank, int) {
    return candidate == 3 && rank == 2 ? 90 : fixed_cost(candidate);
  };
  EXPECT(settled_at(simulate(world).taken, 5) <= kSearch, "3 is slow on rank 2");
}

// Steps of three operations and a long pause: each candidate must have been at each place.
void places_in_a_step_do_not_mislead() {
  World world;
  world.operations = 200;
  world.noise = 0.01;
  world.cost = [](uint32_t candidate, int, int) { return fixed_cost(candidate); };
  world.compute = [](int operation) { return operation % 3 == 2 ? 120.0 : 20.0; };
  EXPECT(settled_at(simulate(world).taken, 3) <= kSearch, "did not settle");
}

void stays_where_there_is_only_noise() {
  for (const unsigned seed : {3u, 4u, 5u}) {
    World world;
    world.operations = 6000;
    world.noise = 0.15;
    world.cost = [](uint32_t candidate, int, int operation) {
      // And now and then a bad moment of forty operations.
      return fixed_cost(candidate) * (operation % 1500 >= 1460 ? 2 : 1);
    };
    const Trace trace = simulate(world, seed);
    EXPECT(trace.taken.back() == 3 || trace.taken.back() == 5, trace.taken.back());
    EXPECT(switches_after(trace.taken, kSearch) == 0, switches_after(trace.taken, kSearch), " switches");
  }
}

void keeps_the_present_choice_among_equals() {
  World world;
  world.operations = 200;
  world.noise = 0.01;
  world.cost = [](uint32_t candidate, int, int) { return candidate == 9 ? 5000.0 : 100.0 - candidate / 10.0; };
  EXPECT(simulate(world).taken.back() == 1, "left the model's choice for nothing");
}

// From operation 1000 on, what the filter had dropped is the best.
void finds_what_is_best_only_later() {
  World world;
  world.operations = 2400;
  world.noise = 0.05;
  world.cost = [](uint32_t candidate, int, int operation) {
    if (operation < 1000) return fixed_cost(candidate);
    return candidate == 7 ? 40.0 : 3 * fixed_cost(candidate);
  };
  const Trace trace = simulate(world);
  EXPECT(std::all_of(trace.taken.begin() + kSearch, trace.taken.begin() + 1000, [](uint32_t one) { return one == 3; }),
         "left 3 before the change");
  // At most four windows of 64 until it is believed, then the search.
  EXPECT(settled_at(trace.taken, 7) <= 1000 + 4 * 64 + kSearch, "settled at ", settled_at(trace.taken, 7));
}

void keys_do_not_mix() {
  World world;
  world.operations = 1200;
  world.key = [](int operation) { return operation % 5 < 2 ? kOther : kKey; };
  world.cost = [&](uint32_t candidate, int, int operation) {
    return operation % 5 < 2 && candidate == 5 ? 10 : fixed_cost(candidate);
  };
  const Trace trace = simulate(world);
  EXPECT(trace.rows.size() == 2, trace.rows.size());
  for (const auto& row : trace.rows) {
    EXPECT(row.choice == (row.key.kind == kOther.kind ? 5u : 3u), row.choice, " for ", int{row.key.kind});
  }
}

// A search of what is never called again keeps the others waiting, and not forever.
void an_abandoned_search_is_no_obstacle() {
  World world;
  world.operations = 800;
  world.key = [](int operation) { return operation < 10 ? kOther : kKey; };
  world.cost = [](uint32_t candidate, int, int) { return fixed_cost(candidate); };
  EXPECT(settled_at(simulate(world).taken, 3) <= 10 + 256 + kSearch, "did not settle");
}

// Rank 0 alone: what can be done to a tuner by hand.
class Alone : public ccore::Council {
 public:
  bool leads() const override { return true; }
  void collect_worst(std::vector<double>*) override {}
  void follow(Decision* decision) override { change(decision); }
  std::function<void(Decision*)> change = [](Decision*) {};
};

std::vector<uint32_t> play(Tuner* tuner, int64_t* now_ns, Alone* council, int operations) {
  std::vector<uint32_t> taken;
  for (int i = 0; i < operations; ++i) {
    taken.push_back(tuner->begin(kKey, static_cast<uint64_t>(i) + 1, council, [] { return kCandidates; }));
    *now_ns += static_cast<int64_t>(1000 * fixed_cost(taken.back()));
    tuner->end();
  }
  return taken;
}

void is_told_what_to_do() {
  int64_t now_ns = 0;
  Alone alone;
  TunerSettings off = settings_for(PerfMode::time);
  off.enabled = 0;
  Tuner silent(off, [&] { return now_ns; });
  EXPECT(settled_at(play(&silent, &now_ns, &alone, 500), 1) == 0, "searched although it is off");
  silent.retune();
  EXPECT(play(&silent, &now_ns, &alone, 500).back() == 3, "did not search when told to");
  Tuner early(off, [&] { return now_ns; });
  early.retune();
  EXPECT(play(&early, &now_ns, &alone, 500).back() == 3, "did not search what came up later");

  Tuner preset(settings_for(PerfMode::time), [&] { return now_ns; });
  EXPECT(preset.fix(kKey, 5, 80), "");
  EXPECT(settled_at(play(&preset, &now_ns, &alone, 200), 5) == 0, "did not take the given choice");
  EXPECT(!preset.fix(kKey, 4, 80), "4 is no candidate");
  // One that is unknown when the key is first seen, of a cache of another version: searched as if it were not
  // there.
  Tuner foreign(settings_for(PerfMode::time), [&] { return now_ns; });
  EXPECT(foreign.fix(kKey, 4, 80), "nothing is known of the key yet");
  EXPECT(play(&foreign, &now_ns, &alone, 200).back() == 3, "");
  EXPECT(foreign.choices_made() == 2, "one is made, and then it is known what it takes: ", foreign.choices_made());
}

void refuses_what_it_cannot_do() {
  const std::vector<std::function<void(Decision*)>> changes = {
      [](Decision* one) { one->sequence += 1; },
      [](Decision* one) { one->magic = 0; },
      [](Decision* one) { one->candidates[0] = 4; },
      [](Decision* one) { one->count = 0; },
      [](Decision* one) { one->count = 1000000; },
      [](Decision* one) { one->phase = static_cast<Phase>(77); },
      [](Decision* one) {
        one->phase = Phase::fixed;
        one->count = 2;
      }};
  for (const auto& change : changes) {
    int64_t now_ns = 0;
    Alone alone;
    alone.change = change;
    Tuner tuner(settings_for(PerfMode::time), [&] { return now_ns; });
    bool refused = false;
    try {
      play(&tuner, &now_ns, &alone, 200);
    } catch (const ccore::Error& error) {
      refused = error.code() == CC_ERROR_DESYNC && contains(error.what(), "the tuner of rank 0");
    }
    EXPECT(refused, "a decision that this rank cannot follow");
  }
}

}  // namespace

void tuner() {
  converges();
  outliers_do_not_mislead_the_filter_mode();
  the_slowest_rank_counts();
  places_in_a_step_do_not_mislead();
  stays_where_there_is_only_noise();
  keeps_the_present_choice_among_equals();
  finds_what_is_best_only_later();
  keys_do_not_mix();
  an_abandoned_search_is_no_obstacle();
  is_told_what_to_do();
  refuses_what_it_cannot_do();
}

}  // namespace test
