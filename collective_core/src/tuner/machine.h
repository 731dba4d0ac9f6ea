// The tuner of one kind of operation (a collective, a class of sizes and of types), as a pure state machine:
// its caller passes the time.
//
//   warmup --search()--> filter --decision--> profile --decision--> fixed --decision, on drift--> warmup
//
// Which candidate an operation takes depends on the decisions so far and on the number of calls since, and on
// nothing that a rank measured: ranks that apply the same decisions before the same operations agree always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tuner/samples.h"
#include "tuner/settings.h"

namespace ccore {

constexpr size_t kMostCandidates = 16;

struct Candidate {
  uint32_t id;
  double cold_us;  // what the model expects
};

enum class Phase : uint32_t { warmup = 1, filter = 2, profile = 3, fixed = 4 };
const char* name_of(Phase phase);

// Rank 0's, for all ranks; travels as bytes.
struct Decision {
  uint32_t magic = 0x4e554343;  // "CCUN"
  Phase phase = Phase::fixed;
  uint64_t sequence = 0;  // the operation from which on it holds
  uint32_t count = 0;     // candidates of the phase; one when fixed
  uint32_t late_windows = 0;
  double reference_us = 0;  // of the fixed candidate; 0: not known yet
  uint32_t candidates[kMostCandidates] = {};
};

class Machine {
 public:
  // Of 1 to kMostCandidates candidates; the one with the least cold_us is the first choice.
  Machine(const TunerSettings& settings, std::vector<Candidate> candidates);

  // Starts with a choice made elsewhere: no warm-up, no search. False if it is not a candidate.
  bool fix(uint32_t id, double reference_us);
  // Wants a search again.
  void retune();
  // That it is warm and wants a search; then, to begin it with the next operation.
  bool wants_search() const;
  void search();
  bool searching() const { return phase_ == Phase::filter || phase_ == Phase::profile; }

  // Whether the next operation needs a decision first. The same on all ranks.
  bool decision_due() const;
  // This rank's measurements, one per candidate of the phase, in the order of ids in phase_candidates().
  std::vector<double> figures() const;
  // On rank 0, from the worst figures over all ranks. Pure.
  Decision decide(const std::vector<double>& figures, uint64_t sequence) const;
  // False, and nothing is done: it names what is not a candidate here.
  bool apply(const Decision& decision);

  // The candidate of the next operation.
  uint32_t next() const;
  // The operation with next() ended. interval_us is passed later, when the next one begins.
  void record(double own_us);
  void record_interval(double interval_us);

  Phase phase() const { return phase_; }
  uint32_t choice() const { return choice_; }
  double reference_us() const { return reference_us_; }
  const std::vector<uint32_t>& phase_candidates() const { return active_; }

 private:
  bool known(uint32_t id) const;
  bool watching() const;  // for drift
  void enter(Phase phase, std::vector<uint32_t> active);
  size_t calls_of_each() const;  // of the phase's candidates
  size_t next_place() const;
  Decision search_from(const std::vector<double>& figures) const;
  Decision choose_from(const std::vector<double>& figures) const;
  Decision watch(double figure_us) const;
  std::vector<uint32_t> hopeful() const;

  TunerSettings settings_;
  std::vector<Candidate> candidates_;
  Phase phase_ = Phase::warmup;
  uint32_t choice_;
  std::vector<uint32_t> active_;
  std::vector<Samples> samples_;  // of active_
  size_t calls_ = 0;              // in this phase
  size_t last_place_ = 0;
  bool interval_open_ = false;
  bool restless_;  // a search is to come
  uint32_t late_windows_ = 0;
  double reference_us_ = 0;
};

}  // namespace ccore
