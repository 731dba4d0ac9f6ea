// Finds the k largest magnitudes of a long vector in one pass over it: a sample guesses a floor that somewhat
// more than k elements reach, those are collected while the vector is computed, and the exact selection runs on
// them. A wrong guess costs time (the selection then reads the vector again), never exactness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/collect.h"
#include "compress/magnitude.h"

namespace ccore {

class Candidates {
 public:
  static constexpr size_t kMostBlock = 4096;  // elements that add() takes at once

  // value(i): element i of the vector. A vector or a k that a sample does not suit, and k = 0, leave it unused.
  template <typename Value>
  void guess(size_t count, size_t k, Value value) {
    start(count, k);
    if (!in_use_) return;
    for (size_t i = 0; i < count; i += stride_) sample_.push_back(value(i));
    set_floor(k);
  }
  // Elements [begin, begin + count) of the vector, each once and in order: acc = a + b, or a where b is null. Returns
  // the largest magnitude; acc is of use only if that is finite.
  uint32_t add(CollectFunction collect, const float* a, const float* b, size_t begin, size_t count, float* acc);
  // The same k elements as select_by(cut_at(x, count, k), ...), x being what was added.
  void select(const float* x, size_t count, size_t k, uint32_t* indices);

 private:
  void start(size_t count, size_t k);
  void set_floor(size_t k);

  bool in_use_ = false;
  size_t stride_ = 1;
  size_t most_ = 0;
  size_t found_ = 0;
  uint32_t floor_ = 0;
  std::vector<float> sample_;
  std::vector<float> values_;
  std::vector<uint32_t> indices_;
};

// The k largest magnitudes of x in the order of their indices; among equals the lowest indices. NaN counts as
// the largest. 1 <= k <= count < 2^32.
void select_exact(const float* x, size_t count, size_t k, SimdLevel level, uint32_t* indices);

}  // namespace ccore
