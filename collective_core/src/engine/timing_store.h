// What this process, or an earlier one, has measured of the algorithms. Used by rank 0, which tells the others.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/measured.h"
#include "tuner/cache.h"

namespace ccore {

// More than there are points to measure.
constexpr size_t kMostTimings = 192;

// Travels as bytes.
struct KnownTimings {
  uint32_t settled = 0;  // a bit for each collective and group of sizes that this process has measured or verified
  uint32_t count = 0;
  Timing timings[kMostTimings];
};

class TimingStore {
 public:
  // Of the process: a job's second communicator need not measure again.
  static TimingStore& instance();

  // files: whether to look on the disk when this identity comes up first. Whatever is wrong with a file is a warning.
  KnownTimings get(const CacheIdentity& identity, bool files);
  // All that is known now; settled: as above; changed: it is not what the file has.
  void put(const CacheIdentity& identity, const std::vector<Timing>& timings, uint32_t settled, bool changed);
  // Writes the file if anything was put since. What cannot be written is a warning.
  void save(const CacheIdentity& identity);
  // For tests: as if the process had just started.
  void forget();

 private:
  struct Entry {
    std::vector<Timing> timings;
    uint32_t settled = 0;
    bool changed = false;
  };

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by the text of their identities
};

}  // namespace ccore
