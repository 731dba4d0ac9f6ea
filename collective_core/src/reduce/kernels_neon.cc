// Advanced SIMD, which every 64-bit Arm CPU has, with its conversions of f16.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce/float8.h"
#include "reduce/kernels.h"

namespace ccore {
namespace {

constexpr size_t kWidth = 16;

float32x4_t widen_f16(const char* from) {
  float16x4_t halves;
  std::memcpy(&halves, from, sizeof halves);
  return vcvt_f32_f16(halves);
}

void narrow_f16(char* to, float32x4_t value) {
  const float16x4_t halves = vcvt_f16_f32(value);
  std::memcpy(to, &halves, sizeof halves);
}

#include "reduce/vector_kernels.inc"

}  // namespace

ReduceFunction reduce_function_neon(cc_dtype dtype, cc_redop op, bool last) { return choose(dtype, op, last); }

}  // namespace ccore
