#include "tuner/tuner.h"

#include <tuple>
#include <utility>

#include "common/error.h"

namespace ccore {
namespace {

// After so many operations of others a search that makes no progress does not keep others from theirs.
constexpr uint64_t kSearchPatience = 256;

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

bool TunerKey::operator<(const TunerKey& other) const {
  return std::tie(kind, size_class, dtype_class) < std::tie(other.kind, other.size_class, other.dtype_class);
}

uint8_t size_class(uint64_t bytes) {
  uint8_t log2 = 0;
  while (bytes > 1) {
    bytes >>= 1;
    ++log2;
  }
  return log2;
}

Tuner::Tuner(const TunerSettings& settings, Clock clock) : settings_(settings), clock_(std::move(clock)) {}

Tuner::Entry* Tuner::entry_of(const TunerKey& key, const std::function<std::vector<Candidate>()>& candidates) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  Entry* entry = &entries_.emplace(key, Entry{Machine(settings_, candidates())}).first->second;
  const auto preset = presets_.find(key);
  if (preset != presets_.end()) {
    entry->machine.fix(preset->second.candidate, preset->second.us);
    presets_.erase(preset);
  } else if (search_new_) {
    entry->machine.retune();
  }
  return entry;
}

uint32_t Tuner::begin(const TunerKey& key, uint64_t sequence, Council* council,
                      const std::function<std::vector<Candidate>()>& candidates) {
  Entry* entry = entry_of(key, candidates);
  const int64_t now = clock_();
  if (first_ns_ < 0) first_ns_ = now;
  if (entry->began_ns >= 0) entry->machine.record_interval(microseconds(now - entry->began_ns));
  running_ = nullptr;
  if (entry->machine.decision_due()) {
    decide(&entry->machine, sequence, council);
    entry->began_ns = clock_();
  } else {
    entry->began_ns = now;
  }
  running_ = entry;
  return entry->machine.next();
}

void Tuner::decide(Machine* machine, uint64_t sequence, Council* council) {
  std::vector<double> figures = machine->figures();
  council->collect_worst(&figures);
  Decision decision;
  if (council->leads()) decision = machine->decide(figures, sequence);
  council->follow(&decision);
  const bool was_settled = machine->phase() == Phase::fixed;
  const bool was_known = machine->reference_us() > 0;
  if (decision.sequence != sequence || !machine->apply(decision)) {
    throw Error(CC_ERROR_DESYNC,
                format("the tuner of rank 0 decided for operation %llu what this rank cannot do in "
                       "operation %llu: the ranks have different algorithms",
                       static_cast<unsigned long long>(decision.sequence), static_cast<unsigned long long>(sequence)));
  }
  const bool news = !was_settled || (!was_known && machine->reference_us() > 0);
  if (machine->phase() == Phase::fixed && news) ++choices_made_;
}

void Tuner::end() {
  if (!running_) return;
  last_ns_ = clock_();
  inside_ns_ += last_ns_ - running_->began_ns;
  running_->machine.record(microseconds(last_ns_ - running_->began_ns));
  let_search(running_);
  running_ = nullptr;
}

// One at a time: what one of them tries would be in the intervals of the others. Counted in operations, so
// that all ranks let the same one.
void Tuner::let_search(Entry* entry) {
  ++operations_;
  if (entry == searcher_) searched_at_ = operations_;
  if (!entry->machine.wants_search()) return;
  const bool busy = searcher_ && searcher_->machine.searching() && operations_ - searched_at_ <= kSearchPatience;
  if (busy) return;
  searcher_ = entry;
  searched_at_ = operations_;
  entry->machine.search();
}

void Tuner::retune() {
  presets_.clear();
  search_new_ = true;
  for (auto& [key, entry] : entries_) entry.machine.retune();
}

bool Tuner::fix(const TunerKey& key, uint32_t candidate, double us) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second.machine.fix(candidate, us);
  presets_[key] = Preset{candidate, us};
  return true;
}

std::vector<TunerRow> Tuner::rows() const {
  std::vector<TunerRow> all;
  for (const auto& [key, entry] : entries_) {
    all.push_back(TunerRow{key, entry.machine.phase(), entry.machine.choice(), entry.machine.reference_us()});
  }
  return all;
}

bool Tuner::find(const TunerKey& key, uint32_t* candidate) const {
  const auto entry = entries_.find(key);
  const auto preset = presets_.find(key);
  if (entry != entries_.end()) *candidate = entry->second.machine.next();
  if (preset != presets_.end()) *candidate = preset->second.candidate;
  return entry != entries_.end() || preset != presets_.end();
}

double Tuner::share() const {
  return last_ns_ > first_ns_ ? static_cast<double>(inside_ns_) / static_cast<double>(last_ns_ - first_ns_) : 0;
}

}  // namespace ccore
