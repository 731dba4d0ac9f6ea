// Environment variables, each read with its type and checked.
#pragma once

#include <cstdint>
#include <string>

namespace ccore {

// Empty when unset.
std::string env_text(const char* name);
// `fallback` when unset or empty; throws CC_ERROR_INVALID_ARGUMENT when it is not a number in [least, most].
int64_t env_integer(const char* name, int64_t fallback, int64_t least, int64_t most);
// The same for seconds with a fraction, as milliseconds.
int64_t env_seconds_as_ms(const char* name, int64_t fallback_ms);

}  // namespace ccore
