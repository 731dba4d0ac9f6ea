#include "engine/timing_store.h"

#include <algorithm>

#include "tuner/timings.h"

namespace ccore {
namespace {

// Without a directory, nothing is kept, and no warning is printed, as no user has asked for it.
KeptLines table_of(const CacheIdentity& identity) {
  return cache_directory().empty() ? KeptLines() : KeptLines("measured times", identity);
}

}  // namespace

TimingStore& TimingStore::instance() {
  static TimingStore* const store = new TimingStore;  // outlives every communicator
  return *store;
}

KnownTimings TimingStore::get(const CacheIdentity& identity, bool files) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, fresh] = entries_.try_emplace(identity.text());
  Entry& entry = found->second;
  if (fresh && files) entry.timings = table_of(identity).read("timing", timing_of);
  KnownTimings known;
  known.settled = entry.settled;
  known.count = static_cast<uint32_t>(std::min(entry.timings.size(), kMostTimings));
  std::copy_n(entry.timings.begin(), known.count, known.timings);
  return known;
}

void TimingStore::put(const CacheIdentity& identity, const std::vector<Timing>& timings, uint32_t settled,
                      bool changed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[identity.text()];
  entry.timings = timings;
  entry.settled |= settled;
  entry.changed = entry.changed || changed;
}

void TimingStore::save(const CacheIdentity& identity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(identity.text());
  if (found == entries_.end() || !found->second.changed) return;
  found->second.changed = false;
  CacheLines lines;
  for (const Timing& one : found->second.timings) lines.insert(line_of(one));
  table_of(identity).keep(lines);
}

void TimingStore::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
}

}  // namespace ccore
