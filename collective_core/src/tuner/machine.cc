#include "tuner/machine.h"

#include <algorithm>
#include <utility>

namespace ccore {
namespace {

// A permutation of n places for one pass over them, the same on all ranks. In a fixed order a program that
// repeats itself, such as a training step with its buckets, would give each candidate always the same place
// in it.
size_t shuffled(size_t place, size_t n, size_t pass) {
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  uint64_t state = pass * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
  for (size_t i = n; i > 1; --i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::swap(order[i - 1], order[state % i]);
  }
  return order[place];
}

Decision decision_of(Phase phase, const std::vector<uint32_t>& candidates) {
  Decision decision;
  decision.phase = phase;
  decision.count = static_cast<uint32_t>(candidates.size());
  std::copy(candidates.begin(), candidates.end(), decision.candidates);
  return decision;
}

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::warmup:
      return "warmup";
    case Phase::filter:
      return "filter";
    case Phase::profile:
      return "profile";
    case Phase::fixed:
      return "fixed";
  }
  return "unknown";
}

Machine::Machine(const TunerSettings& settings, std::vector<Candidate> candidates)
    : settings_(settings), candidates_(std::move(candidates)), restless_(settings.enabled != 0) {
  const auto best = std::min_element(candidates_.begin(), candidates_.end(),
                                     [](const Candidate& a, const Candidate& b) { return a.cold_us < b.cold_us; });
  choice_ = best->id;
  enter(candidates_.size() == 1 ? Phase::fixed : Phase::warmup, {choice_});
}

bool Machine::fix(uint32_t id, double reference_us) {
  if (!known(id)) return false;
  choice_ = id;
  reference_us_ = reference_us;
  late_windows_ = 0;
  enter(Phase::fixed, {id});
  return true;
}

void Machine::retune() {
  if (candidates_.size() == 1) return;
  restless_ = true;
  enter(Phase::warmup, {choice_});
}

bool Machine::wants_search() const {
  return restless_ && phase_ == Phase::warmup && calls_ >= calls_of_each() && candidates_.size() > 1;
}

void Machine::search() { enter(Phase::filter, hopeful()); }

bool Machine::watching() const { return phase_ == Phase::fixed && settings_.enabled && candidates_.size() > 1; }

bool Machine::decision_due() const {
  return (searching() || watching()) && calls_ > 0 && calls_ >= active_.size() * calls_of_each();
}

size_t Machine::calls_of_each() const {
  switch (phase_) {
    case Phase::warmup:
      return static_cast<size_t>(settings_.warmup_calls);
    case Phase::filter:
      return static_cast<size_t>(settings_.filter_calls);
    case Phase::profile:
      return static_cast<size_t>(settings_.profile_calls);
    case Phase::fixed:
      break;
  }
  return static_cast<size_t>(settings_.window_calls);
}

std::vector<double> Machine::figures() const {
  std::vector<double> all;
  for (const Samples& samples : samples_) {
    // What the program does beside the operation is not a drift of the operation.
    all.push_back(samples.figure(phase_ == Phase::fixed ? PerfMode::profile : settings_.mode));
  }
  return all;
}

Decision Machine::decide(const std::vector<double>& figures, uint64_t sequence) const {
  Decision decision;
  if (phase_ == Phase::fixed) {
    decision = watch(figures.front());
  } else {
    decision = phase_ == Phase::filter ? search_from(figures) : choose_from(figures);
  }
  decision.sequence = sequence;
  return decision;
}

// The best few, for a closer look, and the present choice unless it is far behind.
Decision Machine::search_from(const std::vector<double>& figures) const {
  const double best = *std::min_element(figures.begin(), figures.end());
  std::vector<size_t> order(figures.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return figures[a] < figures[b]; });
  std::vector<uint32_t> kept;
  for (const size_t i : order) {
    if (figures[i] > best * settings_.drop_ratio) break;
    if (kept.size() < static_cast<size_t>(settings_.top_candidates)) {
      kept.push_back(active_[i]);
    } else if (active_[i] == choice_) {
      kept.back() = choice_;
    }
  }
  return decision_of(kept.size() > 1 ? Phase::profile : Phase::fixed, kept);
}

Decision Machine::choose_from(const std::vector<double>& figures) const {
  const auto best = static_cast<size_t>(std::min_element(figures.begin(), figures.end()) - figures.begin());
  size_t chosen = best;
  for (size_t i = 0; i < figures.size(); ++i) {
    if (active_[i] == choice_ && figures[i] <= figures[best] * settings_.keep_ratio) chosen = i;
  }
  return decision_of(Phase::fixed, {active_[chosen]});
}

Decision Machine::watch(double figure_us) const {
  Decision decision = decision_of(Phase::fixed, {choice_});
  decision.reference_us = reference_us_ > 0 ? reference_us_ : figure_us;
  const double ratio = decision.reference_us > 0 ? figure_us / decision.reference_us : 1;
  const bool changed = ratio > settings_.drift_ratio || ratio < 1 / settings_.drift_ratio;
  decision.late_windows = changed ? late_windows_ + 1 : 0;
  if (decision.late_windows < static_cast<uint32_t>(settings_.drift_windows)) return decision;
  return decision_of(Phase::warmup, {choice_});
}

bool Machine::apply(const Decision& decision) {
  if (decision.magic != Decision().magic || decision.count == 0 || decision.count > candidates_.size()) return false;
  const std::vector<uint32_t> named(decision.candidates, decision.candidates + decision.count);
  if (!std::all_of(named.begin(), named.end(), [&](uint32_t id) { return known(id); })) return false;
  switch (decision.phase) {
    case Phase::warmup:
    case Phase::fixed:
      if (named.size() != 1) return false;
      choice_ = named.front();
      restless_ = decision.phase == Phase::warmup;
      break;
    case Phase::profile:
      break;
    default:
      return false;
  }
  late_windows_ = decision.late_windows;
  reference_us_ = decision.reference_us;
  enter(decision.phase, named);
  return true;
}

uint32_t Machine::next() const { return active_[next_place()]; }

void Machine::record(double own_us) {
  last_place_ = next_place();
  ++calls_;
  if (!searching() && !watching()) return;
  samples_[last_place_].own_us.push_back(own_us);
  interval_open_ = true;
}

void Machine::record_interval(double interval_us) {
  if (interval_open_) samples_[last_place_].interval_us.push_back(interval_us);
  interval_open_ = false;
}

bool Machine::known(uint32_t id) const {
  return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.id == id; });
}

void Machine::enter(Phase phase, std::vector<uint32_t> active) {
  phase_ = phase;
  active_ = std::move(active);
  samples_.assign(active_.size(), Samples());
  calls_ = 0;
  interval_open_ = false;
}

size_t Machine::next_place() const {
  const size_t n = active_.size();
  if (n == 1) return 0;
  if (settings_.mode == PerfMode::profile) return shuffled(calls_ % n, n, calls_ / n);
  // An interval says nothing alone, as it is now one inside of a step of the program and now one between two.
  // Many in a row make up whole steps, but for one.
  return std::min(calls_ / calls_of_each(), n - 1);
}

std::vector<uint32_t> Machine::hopeful() const {
  double best = candidates_.front().cold_us;
  for (const Candidate& one : candidates_) best = std::min(best, one.cold_us);
  std::vector<uint32_t> ids;
  for (const Candidate& one : candidates_) {
    if (one.id == choice_ || one.cold_us <= best * settings_.hopeless_ratio) ids.push_back(one.id);
  }
  return ids;
}

}  // namespace ccore
