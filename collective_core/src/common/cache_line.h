// What a processor's caches hold and lose as one.
#pragma once

#include <cstddef>

namespace ccore {

constexpr size_t kCacheLine = 64;

}  // namespace ccore
