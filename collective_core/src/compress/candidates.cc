#include "compress/candidates.h"

#include <algorithm>

#include "compress/radix_select.h"

namespace ccore {
namespace {

constexpr size_t kLeastCount = size_t{1} << 16;  // shorter vectors stay in the cache between passes
constexpr size_t kMostStride = 255;              // odd, to share no period with rows of even length
constexpr size_t kLeastHits = 64;                // of the sample among the k largest; fewer tell little

}  // namespace

void Candidates::start(size_t count, size_t k) {
  values_.clear();
  indices_.clear();
  overflowed_ = false;
  stride_ = std::min(kMostStride, (k / kLeastHits) | 1);
  in_use_ = count >= kLeastCount && k >= 8 * kLeastHits && k <= count / 8;
  most_ = 2 * k;
}

void Candidates::set_floor(size_t k) {
  // The hits of the sample vary by their square root; five of those more make too few candidates rare.
  const size_t hits = k / stride_;
  size_t margin = 1;
  while (margin * margin < hits) ++margin;
  const size_t rank = std::min(hits + 5 * margin, values_.size() - 1);
  const auto place = values_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values_.begin(), place, values_.end(),
                   [](float a, float b) { return magnitude(a) > magnitude(b); });
  floor_ = magnitude(*place);
  values_.clear();
  values_.reserve(most_);
  indices_.reserve(most_);
}

void Candidates::feed(const float* x, size_t begin, size_t count) {
  if (!in_use_ || overflowed_) return;
  for_each_at_least(x, count, floor_, [&](size_t i) {
    if (values_.size() == most_) {
      overflowed_ = true;
      return;
    }
    values_.push_back(x[i]);
    indices_.push_back(static_cast<uint32_t>(begin + i));
  });
}

void Candidates::select(const float* x, size_t count, size_t k, uint32_t* indices) {
  if (!in_use_ || overflowed_ || values_.size() < k) {
    select_by(cut_at(x, count, k), x, count, k, indices);
    return;
  }
  const size_t found = values_.size();
  select_by(cut_at(values_.data(), found, k), values_.data(), found, k, indices);
  for (size_t i = 0; i < k; ++i) indices[i] = indices_[indices[i]];
}

void select_exact(const float* x, size_t count, size_t k, uint32_t* indices) {
  Candidates candidates;
  candidates.guess(count, k, [&](size_t i) { return x[i]; });
  candidates.feed(x, 0, count);
  candidates.select(x, count, k, indices);
}

}  // namespace ccore
