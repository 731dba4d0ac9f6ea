// Tells builds of different sources apart that have one version number.
#pragma once

#include <cstdint>

namespace ccore {

// Written by scripts/source_digest.cmake. Part of the ranks' first exchange, because what they exchange later, and the
// order in which they send, are the same only for the same sources.
extern const uint64_t kSourceDigest;

}  // namespace ccore
