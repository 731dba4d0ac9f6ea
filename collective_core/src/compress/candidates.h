// Finds the k largest magnitudes of a long vector in one pass over it: a sample guesses a floor that somewhat
// more than k elements reach, those are collected as they stream by, and the exact selection runs on them.
// A wrong guess costs time (the selection then reads the vector again), never exactness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/magnitude.h"

namespace ccore {

class Candidates {
 public:
  // value(i): element i of the vector. A vector or a k that a sample does not suit leaves it unused.
  template <typename Value>
  void guess(size_t count, size_t k, Value value) {
    start(count, k);
    if (!in_use_) return;
    for (size_t i = 0; i < count; i += stride_) values_.push_back(value(i));
    set_floor(k);
  }
  // Elements [begin, begin + count) of the vector, each once and in order.
  void feed(const float* x, size_t begin, size_t count);
  // The same k elements as select_by(cut_at(x, count, k), ...), x being what was fed.
  void select(const float* x, size_t count, size_t k, uint32_t* indices);

 private:
  void start(size_t count, size_t k);
  void set_floor(size_t k);

  bool in_use_ = false;
  bool overflowed_ = false;
  size_t stride_ = 1;
  size_t most_ = 0;
  uint32_t floor_ = 0;
  std::vector<float> values_;  // first the sample, then the candidates
  std::vector<uint32_t> indices_;
};

// The k largest magnitudes of x in the order of their indices; among equals the lowest indices. NaN counts as
// the largest. 1 <= k <= count < 2^32.
void select_exact(const float* x, size_t count, size_t k, uint32_t* indices);

}  // namespace ccore
