#include "common/simd.h"

#include <string>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

constexpr const char* kNames[] = {"scalar", "avx2", "avx512", "neon"};

const char* name_of(SimdLevel level) { return kNames[static_cast<int>(level)]; }

std::vector<SimdLevel> find_levels() {
  std::vector<SimdLevel> levels = {SimdLevel::scalar};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma")) {
    levels.push_back(SimdLevel::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      levels.push_back(SimdLevel::avx512);
    }
  }
#elif defined(__aarch64__)
  levels.push_back(SimdLevel::neon);
#endif
  return levels;
}

SimdLevel choose() {
  const auto [spelling, text] = env_setting("CCORE_SIMD");
  const std::vector<SimdLevel>& levels = simd_levels();
  if (text.empty()) return levels.back();
  for (const SimdLevel level : levels) {
    if (text == name_of(level)) return level;
  }
  for (const char* name : kNames) {
    if (text != name) continue;
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("%s=%s: this CPU offers only %s", spelling.c_str(), text.c_str(), name_of(levels.back())));
  }
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              format("%s=%s: expected scalar, avx2, avx512 or neon", spelling.c_str(), text.c_str()));
}

}  // namespace

const std::vector<SimdLevel>& simd_levels() {
  static const std::vector<SimdLevel> levels = find_levels();
  return levels;
}

SimdLevel simd_level() {
  static const SimdLevel level = choose();
  return level;
}

}  // namespace ccore
