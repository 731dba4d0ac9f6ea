// The exact k-th largest magnitude, and the k elements that it separates from the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore {

// Selected are all elements with a magnitude above `key`, and of those equal to it the first `ties`.
struct Cut {
  uint32_t key;
  size_t ties;
};

// Radix selection: a histogram of the 11 high bits of the magnitudes finds the bin of the k-th largest, two
// more of 10 bits each refine it inside that bin. Three passes over x at most, no copy of it; what is found
// depends on the values alone. 1 <= k <= count.
Cut cut_at(const float* x, size_t count, size_t k);

// The k elements, in the order of their indices; among equal magnitudes the lowest indices. k is what cut was
// made for.
void select_by(const Cut& cut, const float* x, size_t count, size_t k, uint32_t* indices);

}  // namespace ccore
