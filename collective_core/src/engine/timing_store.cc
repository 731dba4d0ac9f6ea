#include "engine/timing_store.h"

#include <algorithm>
#include <stdexcept>

#include "common/error.h"
#include "common/log.h"

namespace ccore {
namespace {

// Empty: there is no home.
std::string timings_path(const CacheIdentity& identity) {
  const std::string directory = cache_directory();
  return directory.empty() ? "" : directory + "/timings-" + identity.file_name();
}

std::vector<Timing> timings_on_disk(const CacheIdentity& identity) {
  const std::string path = timings_path(identity);
  try {
    const std::string text = path.empty() ? "" : read_cache(path);
    return text.empty() ? std::vector<Timing>() : parse_timings(identity, text);
  } catch (const std::invalid_argument& error) {
    log(LogLevel::warn, "%s is ignored and will be replaced: %s", path.c_str(), error.what());
  } catch (const Error& error) {
    log(LogLevel::warn, "measured times are not read: %s", error.what());
  }
  return {};
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
  if (fresh && files) entry.timings = timings_on_disk(identity);
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
  found->second.changed = false;  // what fails is said once
  const std::string path = timings_path(identity);
  if (path.empty()) return;
  std::vector<Timing> all = found->second.timings;
  for (const Timing& old : timings_on_disk(identity)) {
    // Another job may have measured other collectives since.
    const auto same = [&](const Timing& one) { return one.same_point(old); };
    if (all.size() < kMostTimings && std::none_of(all.begin(), all.end(), same)) all.push_back(old);
  }
  try {
    write_cache(path, format_timings(identity, all));
    log(LogLevel::info, "measured times are kept in %s", path.c_str());
  } catch (const Error& error) {
    log(LogLevel::warn, "measured times are not kept: %s", error.what());
  }
}

void TimingStore::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
}

}  // namespace ccore
