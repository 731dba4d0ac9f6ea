#include "tuner/settings.h"

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

PerfMode mode_from_env() {
  const EnvSetting setting = env_setting("CCORE_AUTOTUNE_PERF_MODE");
  if (setting.text.empty()) return PerfMode::time;
  for (const PerfMode mode : {PerfMode::time, PerfMode::filter, PerfMode::profile}) {
    if (setting.text == name_of(mode)) return mode;
  }
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              format("%s=%s: expected time, filter or profile", setting.name.c_str(), setting.text.c_str()));
}

}  // namespace

const char* name_of(PerfMode mode) {
  switch (mode) {
    case PerfMode::time:
      return "time";
    case PerfMode::filter:
      return "filter";
    case PerfMode::profile:
      return "profile";
  }
  return "unknown";
}

TunerSettings tuner_settings_from_env() {
  constexpr int64_t kMost = 1000000;
  TunerSettings settings;
  settings.enabled = static_cast<int32_t>(env_integer("CCORE_AUTOTUNE", 0, 0, 1));
  settings.mode = mode_from_env();
  settings.warmup_calls =
      static_cast<int32_t>(env_integer("CCORE_AUTOTUNE_WARMUP_CALLS", settings.warmup_calls, 0, kMost));
  settings.profile_calls =
      static_cast<int32_t>(env_integer("CCORE_AUTOTUNE_PROFILE_CALLS", settings.profile_calls, 1, kMost));
  settings.window_calls =
      static_cast<int32_t>(env_integer("CCORE_AUTOTUNE_WINDOW_CALLS", settings.window_calls, 1, kMost));
  settings.measure = static_cast<int32_t>(env_integer("CCORE_MEASURE", settings.measure, 0, 1));
  settings.keep_timings = static_cast<int32_t>(env_integer("CCORE_MEASURE_CACHE", settings.keep_timings, 0, 1));
  settings.model_bytes = env_integer("CCORE_CACHE_MODEL_BYTES", 0, 0, INT64_MAX);
  settings.cache_disabled = static_cast<int32_t>(env_integer("CCORE_CACHE_DISABLE", 1, 0, 1));
  settings.cache_update_disabled = static_cast<int32_t>(env_integer("CCORE_CACHE_UPDATE_DISABLE", 1, 0, 1));
  return settings;
}

}  // namespace ccore
