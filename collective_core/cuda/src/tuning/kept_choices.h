// Choices that outlive a job: a file of the cache directory, in the format of the tuner of the library for the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/cache.h"
#include "tuning/call_class.h"

namespace ccore_cuda {

struct KeptChoice {
  CallClass of;
  std::string by;  // the name of a candidate
  double us;       // 0: not known
};

// Used by rank 0 alone. What is wrong with the file is a warning, and the file counts as missing.
class KeptChoices {
 public:
  // updates: an existing file is written again.
  KeptChoices(const ccore::CacheIdentity& identity, bool updates);

  const std::vector<KeptChoice>& found() const { return found_; }
  // Adds it to what other jobs have written since.
  void keep(const KeptChoice& choice);

 private:
  ccore::KeptLines file_;
  std::vector<KeptChoice> found_;
  ccore::CacheLines own_;
};

}  // namespace ccore_cuda
