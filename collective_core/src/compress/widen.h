// The three types that are compressed, as f32 and back.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore {

// Whether top-k works on this type: f32, f16 and bf16.
bool compressible(cc_dtype dtype);
// Any alignment on the side that is not f32.
void widen(const void* from, size_t count, cc_dtype dtype, float* to);
void narrow(const float* from, size_t count, cc_dtype dtype, void* to);

}  // namespace ccore
