#include "compress/topk_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "common/dtype.h"
#include "common/env.h"
#include "common/error.h"
#include "common/plain_numbers.h"
#include "compress/payload.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

double ratio_from_env(double fallback) {
  const EnvSetting given = env_setting("CCORE_TOPK_RATIO");
  if (given.text.empty()) return fallback;
  const std::optional<double> ratio = number_from(given.text);
  if (!ratio || !(*ratio > 0) || *ratio > 1) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, given.name + "=" + given.text + ": expected a number above 0, at most 1");
  }
  return *ratio;
}

void refuse_unless(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

}  // namespace

TopkSettings topk_settings_from(const cc_topk_options* options) {
  cc_topk_options given{};
  if (options) {
    refuse_unless(options->size >= sizeof(size_t) && options->size <= 4096, "cc_topk_options.size is not set");
    std::memcpy(&given, options, std::min(options->size, sizeof given));
  }
  refuse_unless(given.ratio >= 0 && given.ratio <= 1, "cc_topk_options.ratio is not between 0 and 1");
  refuse_unless(given.threshold_bytes >= 0, "cc_topk_options.threshold_bytes is negative");
  refuse_unless(given.method >= CC_TOPK_DEFAULT && given.method <= CC_TOPK_MSTOPK,
                "cc_topk_options.method is not one of cc_topk_method");
  refuse_unless(given.values >= CC_TOPK_VALUES_DEFAULT && given.values <= CC_TOPK_VALUES_F16,
                "cc_topk_options.values is not one of cc_topk_values");
  refuse_unless(given.samplings >= 0 && given.samplings <= 1000, "cc_topk_options.samplings is not between 0 and 1000");
  TopkSettings settings;
  settings.ratio = given.ratio > 0 ? given.ratio : ratio_from_env(settings.ratio);
  const int64_t bytes = given.threshold_bytes > 0
                            ? given.threshold_bytes
                            : env_integer("CCORE_TOPK_THRESHOLD", static_cast<int64_t>(settings.threshold_bytes), 0,
                                          std::numeric_limits<int64_t>::max());
  settings.threshold_bytes = static_cast<size_t>(bytes);
  if (given.method == CC_TOPK_MSTOPK) settings.method = CC_TOPK_MSTOPK;
  const bool half = given.values == CC_TOPK_VALUES_DEFAULT ? env_integer("CCORE_TOPK_FP16", 0, 0, 1) == 1
                                                           : given.values == CC_TOPK_VALUES_F16;
  if (half) settings.values = CC_FLOAT16;
  if (given.samplings > 0) settings.samplings = given.samplings;
  return settings;
}

uint64_t digest(const TopkSettings& settings) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto add = [&](uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (value >> shift & 0xff)) * 1099511628211u;
  };
  uint64_t ratio;
  std::memcpy(&ratio, &settings.ratio, sizeof ratio);
  add(ratio);
  add(settings.threshold_bytes);
  add(static_cast<uint64_t>(settings.method));
  add(static_cast<uint64_t>(settings.values));
  add(static_cast<uint64_t>(settings.samplings));
  return hash;
}

size_t kept_of(size_t count, double ratio) {
  if (count == 0) return 0;
  // Of large counts, 1.0 * count may round to more than there are.
  const auto kept = static_cast<size_t>(std::floor(ratio * static_cast<double>(count)));
  return std::clamp<size_t>(kept, 1, count);
}

Rails rails_of(const std::vector<Place>& places, int rank) {
  const Place& own = places[static_cast<size_t>(rank)];
  Rails rails;
  rails.shards = own.local_size;
  for (const Place& place : places) {
    rails.nodes = std::max(rails.nodes, place.node + 1);
    rails.shards = std::min(rails.shards, place.local_size);
  }
  rails.local.resize(static_cast<size_t>(own.local_size));
  if (own.local_rank < rails.shards) rails.rail.resize(static_cast<size_t>(rails.nodes));
  for (size_t other = 0; other < places.size(); ++other) {
    const Place& place = places[other];
    const auto number = static_cast<int>(other);
    if (place.node == own.node) rails.local[static_cast<size_t>(place.local_rank)] = number;
    if (place.local_rank == own.local_rank && !rails.rail.empty()) {
      rails.rail[static_cast<size_t>(place.node)] = number;
    }
  }
  return rails;
}

bool compresses(const TopkSettings& settings, const Rails& rails, size_t count, cc_dtype dtype) {
  if (rails.nodes < 2 || count == 0 || count * dtype_size(dtype) < settings.threshold_bytes) return false;
  const size_t shard = block_of(count, rails.shards, 0).count;  // the largest
  if (shard > std::numeric_limits<uint32_t>::max()) return false;
  const auto others = static_cast<double>(rails.nodes - 1);
  const double sparse = others * static_cast<double>(payload_bytes(kept_of(shard, settings.ratio), settings.values));
  const double dense = 2 * others / rails.nodes * static_cast<double>(shard * dtype_size(dtype));
  return sparse < dense;
}

}  // namespace ccore
