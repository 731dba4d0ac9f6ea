// Environment variables, each read with its type and checked.
//
// By the own name of a variable, CCORE_*. Its aliases, which environment_table.py lists, count where the own name is
// unset; of two that are set and differ, a warning says once which one counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccore {

struct EnvSetting {
  std::string name;  // the spelling under which it was found; the own name if under none
  std::string text;  // empty when unset or empty
};
EnvSetting env_setting(const char* name);
// What the library reads, in the order of docs/environment.md, with the default in words.
struct EnvVariable {
  const char* name;
  const char* fallback;
};
std::vector<EnvVariable> env_variables();
// Only its text; empty when unset.
std::string env_text(const char* name);
// `fallback` when unset or empty; throws CC_ERROR_INVALID_ARGUMENT when it is not a number in [least, most].
int64_t env_integer(const char* name, int64_t fallback, int64_t least, int64_t most);
// The same for seconds with a fraction, as milliseconds.
int64_t env_seconds_as_ms(const char* name, int64_t fallback_ms);

}  // namespace ccore
