// Sizes and names of element types and reduction operators.
#pragma once

#include <cstddef>

#include "collective_core/collective_core.h"

namespace ccore {

size_t dtype_size(cc_dtype dtype);  // 0 when unknown
const char* dtype_name(cc_dtype dtype);
bool redop_known(cc_redop op);
const char* redop_name(cc_redop op);

}  // namespace ccore
