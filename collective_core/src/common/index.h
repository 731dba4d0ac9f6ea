// Ranks, nodes and blocks are ints, as -1 stands for no rank; what they index counts otherwise.
#pragma once

#include <cstddef>

namespace ccore {

inline size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace ccore
