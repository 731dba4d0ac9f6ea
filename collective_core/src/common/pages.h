// The pages of this machine's memory.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace ccore {

inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// The bytes of the pages that so many bytes need.
inline size_t whole_pages(size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

}  // namespace ccore
