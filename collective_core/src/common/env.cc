#include "common/env.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/log.h"
#include "common/plain_numbers.h"

namespace ccore {
namespace {

struct Row {
  const char* name;
  const char* fallback;
  std::array<const char*, 4> others;  // ends with the first null
};

constexpr Row kRows[] = {
#include "common/env_table.inc"
};

void warn_once(const EnvSetting& winner, const char* loser, const char* value) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!told.insert(loser).second) return;
  log(LogLevel::warn, "%s=%s counts, not its alias %s=%s", winner.name.c_str(), winner.text.c_str(), loser, value);
}

void consider(EnvSetting* found, const char* name, bool may_warn) {
  const char* value = std::getenv(name);
  if (!value || !*value) return;
  if (found->text.empty()) {
    *found = {name, value};
  } else if (found->text != value && may_warn) {
    warn_once(*found, name, value);
  }
}

}  // namespace

EnvSetting env_setting(const char* name) {
  EnvSetting found{name, ""};
  const bool may_warn = std::strcmp(name, "CCORE_DEBUG") != 0;  // which the log reads before it says anything
  consider(&found, name, may_warn);
  for (const Row& row : kRows) {
    if (std::strcmp(row.name, name) != 0) continue;
    for (const char* other : row.others) {
      if (other) consider(&found, other, may_warn);
    }
  }
  return found;
}

std::vector<EnvVariable> env_variables() {
  std::vector<EnvVariable> all;
  for (const Row& row : kRows) all.push_back(EnvVariable{row.name, row.fallback});
  return all;
}

std::string env_text(const char* name) { return env_setting(name).text; }

int64_t env_integer(const char* name, int64_t fallback, int64_t least, int64_t most) {
  const auto [spelling, text] = env_setting(name);
  if (text.empty()) return fallback;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || value < least || value > most) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s: expected a whole number from %lld to %lld", spelling.c_str(), text.c_str(),
                       static_cast<long long>(least), static_cast<long long>(most)));
  }
  return value;
}

int64_t env_seconds_as_ms(const char* name, int64_t fallback_ms) {
  const auto [spelling, text] = env_setting(name);
  if (text.empty()) return fallback_ms;
  const std::optional<double> seconds = number_from(text);
  if (!seconds || !(*seconds > 0) || *seconds > 1e9) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s: expected seconds, more than 0", spelling.c_str(), text.c_str()));
  }
  const auto ms = static_cast<int64_t>(*seconds * 1000);
  return ms > 0 ? ms : 1;
}

}  // namespace ccore
