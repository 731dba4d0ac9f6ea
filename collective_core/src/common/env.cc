#include "common/env.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/error.h"

namespace ccore {

std::string env_text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

EnvSetting env_any(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string text = env_text(name);
    if (!text.empty()) return EnvSetting{name, std::move(text)};
  }
  return EnvSetting{*names.begin(), ""};
}

int64_t env_integer(const char* name, int64_t fallback, int64_t least, int64_t most) {
  return env_integer({name}, fallback, least, most);
}

int64_t env_integer(std::initializer_list<const char*> names, int64_t fallback, int64_t least, int64_t most) {
  const auto [name, text] = env_any(names);
  if (text.empty()) return fallback;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || value < least || value > most) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s: expected a whole number from %lld to %lld", name.c_str(), text.c_str(),
                       static_cast<long long>(least), static_cast<long long>(most)));
  }
  return value;
}

int64_t env_seconds_as_ms(const char* name, int64_t fallback_ms) {
  const std::string text = env_text(name);
  if (text.empty()) return fallback_ms;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(seconds > 0) || seconds > 1e9) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s: expected seconds, more than 0", name, text.c_str()));
  }
  const auto ms = static_cast<int64_t>(seconds * 1000);
  return ms > 0 ? ms : 1;
}

}  // namespace ccore
