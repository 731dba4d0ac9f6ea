// The types whose sums are kept in fp32 and rounded at the end.
#pragma once

#include "collective_core/collective_core.h"

namespace ccore_cuda {

inline bool is_short_float(cc_dtype dtype) {
  return dtype == CC_FLOAT16 || dtype == CC_BFLOAT16 || dtype == CC_FLOAT8_E4M3 || dtype == CC_FLOAT8_E5M2;
}

}  // namespace ccore_cuda
