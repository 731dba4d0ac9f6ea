// How the tuner goes about it. Rank 0's settings hold for all ranks, hence plain bytes.
#pragma once

#include <cstdint>

namespace ccore {

// What makes one candidate better than another; the names are ACSpeed's.
enum class PerfMode : int32_t {
  time,     // the mean time from one operation to the next of its kind: all that the program does counts
  filter,   // the same without outliers, for programs that now and then stop to log or to save
  profile,  // the time of the operation itself; the share of communication in all time is reported
};

struct TunerSettings {
  int32_t enabled = 0;
  PerfMode mode = PerfMode::time;
  int32_t warmup_calls = 3;           // not measured: first touches of memory, first bytes of a connection
  int32_t filter_calls = 8;           // of each candidate
  int32_t profile_calls = 32;         // of each of those that are left
  int32_t top_candidates = 3;         // that are left, at most
  int32_t window_calls = 128;         // from one look for drift to the next
  int32_t drift_windows = 3;          // in a row, until a change counts as one
  double hopeless_ratio = 8;          // a candidate that the model sees behind the best by this is not tried
  double drop_ratio = 1.5;            // a candidate that is measured behind the best by this is not profiled
  double keep_ratio = 1.05;           // the present choice stays unless another is better by more than this
  double drift_ratio = 1.2;           // slower or faster than when it was chosen
  int32_t cache_disabled = 1;         // the file of choices is neither read nor written
  int32_t cache_update_disabled = 1;  // one that exists is left as it is
  int32_t measure = 1;                // algorithms are measured before the first operation of a size
  int32_t keep_timings = 1;           // and what they took is kept for other jobs
  int64_t model_bytes = 0;            // of the model, a part of what tells files of choices apart; 0: not known
};

static_assert(sizeof(TunerSettings) == 88, "no gaps: two are equal if their bytes are");

// From CCORE_AUTOTUNE* and CCORE_CACHE_*. Throws CC_ERROR_INVALID_ARGUMENT.
TunerSettings tuner_settings_from_env();
const char* name_of(PerfMode mode);

}  // namespace ccore
