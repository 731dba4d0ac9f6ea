#include "common/simd.h"

#include <string>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

constexpr const char* kNames[] = {"scalar", "avx2", "avx512"};

SimdLevel choose() {
  const auto [spelling, text] = env_setting("CCORE_SIMD");
  const SimdLevel best = best_simd_level();
  if (text.empty()) return best;
  for (const SimdLevel level : {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512}) {
    if (text != kNames[static_cast<int>(level)]) continue;
    if (level <= best) return level;
    throw Error(CC_ERROR_INVALID_ARGUMENT, format("%s=%s: this CPU offers only %s", spelling.c_str(), text.c_str(),
                                                  kNames[static_cast<int>(best)]));
  }
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              format("%s=%s: expected scalar, avx2 or avx512", spelling.c_str(), text.c_str()));
}

}  // namespace

SimdLevel best_simd_level() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("fma")) {
    return SimdLevel::scalar;
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return SimdLevel::avx512;
  }
  return SimdLevel::avx2;
#else
  return SimdLevel::scalar;
#endif
}

SimdLevel simd_level() {
  static const SimdLevel level = choose();
  return level;
}

}  // namespace ccore
