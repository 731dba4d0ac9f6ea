// The cache that the cores of a processor share.
#pragma once

#include <cstddef>

namespace ccore {

// Bytes, as the C library says; 0 where it does not know.
size_t last_level_cache_bytes();

}  // namespace ccore
