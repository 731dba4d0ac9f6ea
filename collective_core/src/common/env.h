// Environment variables, each read with its type and checked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace ccore {

// Empty when unset.
std::string env_text(const char* name);

// One setting under several names: its own first, then those that other libraries have for it.
struct EnvSetting {
  std::string name;  // under which it was found; the first one if under none
  std::string text;  // empty when unset or empty
};
// The first of the names that is set and not empty.
EnvSetting env_any(std::initializer_list<const char*> names);
// `fallback` when unset or empty; throws CC_ERROR_INVALID_ARGUMENT when it is not a number in [least, most].
int64_t env_integer(const char* name, int64_t fallback, int64_t least, int64_t most);
int64_t env_integer(std::initializer_list<const char*> names, int64_t fallback, int64_t least, int64_t most);
// The same for seconds with a fraction, as milliseconds.
int64_t env_seconds_as_ms(const char* name, int64_t fallback_ms);

}  // namespace ccore
