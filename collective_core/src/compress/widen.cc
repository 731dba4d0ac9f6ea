#include "compress/widen.h"

#include <cstring>

#include "common/error.h"
#include "reduce/half.h"

namespace ccore {

bool compressible(cc_dtype dtype) { return dtype == CC_FLOAT32 || dtype == CC_FLOAT16 || dtype == CC_BFLOAT16; }

void widen(const void* from, size_t count, cc_dtype dtype, float* to) {
  switch (dtype) {
    case CC_FLOAT32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case CC_FLOAT16:
      return f16_to_f32(from, to, count);
    case CC_BFLOAT16:
      return bf16_to_f32(from, to, count);
    default:
      throw Error(CC_ERROR_INTERNAL, "no type that top-k compresses");
  }
}

void narrow(const float* from, size_t count, cc_dtype dtype, void* to) {
  switch (dtype) {
    case CC_FLOAT32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case CC_FLOAT16:
      return f32_to_f16(from, to, count);
    case CC_BFLOAT16:
      return f32_to_bf16(from, to, count);
    default:
      throw Error(CC_ERROR_INTERNAL, "no type that top-k compresses");
  }
}

}  // namespace ccore
