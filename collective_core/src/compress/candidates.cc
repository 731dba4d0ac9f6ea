#include "compress/candidates.h"

#include <algorithm>
#include <array>

#include "compress/radix_select.h"

namespace ccore {
namespace {

constexpr size_t kLeastCount = size_t{1} << 16;  // shorter vectors stay in the cache between passes
constexpr size_t kMostStride = 1021;             // odd, to share no period with rows of even length
constexpr size_t kLeastHits = 64;                // of the sample among the k largest; fewer tell little
constexpr uint32_t kAboveAll = kMagnitudeBits;   // a floor that no number reaches

}  // namespace

void Candidates::start(size_t count, size_t k) {
  sample_.clear();
  found_ = 0;
  stride_ = std::min(kMostStride, (k / kLeastHits) | 1);
  in_use_ = count >= kLeastCount && k >= 8 * kLeastHits && k <= count / 8;
  most_ = in_use_ ? 2 * k : 0;
  floor_ = kAboveAll;
  const size_t room = most_ + kMostBlock + kCollectSlack;
  if (values_.size() < room) {
    values_.resize(room);
    indices_.resize(room);
  }
}

void Candidates::set_floor(size_t k) {
  // The hits of the sample vary by their square root; five of those more make too few candidates rare.
  const size_t hits = k / stride_;
  size_t margin = 1;
  while (margin * margin < hits) ++margin;
  const size_t rank = std::min(hits + 5 * margin, sample_.size() - 1);
  const auto place = sample_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample_.begin(), place, sample_.end(), [](float a, float b) { return magnitude(a) > magnitude(b); });
  floor_ = magnitude(*place);
}

uint32_t Candidates::add(CollectFunction collect, const float* a, const float* b, size_t begin, size_t count,
                         float* acc) {
  Collected collected{values_.data(), indices_.data(), found_};
  const uint32_t largest = collect(a, b, count, static_cast<uint32_t>(begin), floor_, acc, &collected);
  found_ = collected.found;
  if (found_ > most_) {
    in_use_ = false;
    found_ = 0;
    floor_ = kAboveAll;
  }
  return largest;
}

void Candidates::select(const float* x, size_t count, size_t k, uint32_t* indices) {
  if (!in_use_ || found_ < k) {
    select_by(cut_at(x, count, k), x, count, k, indices);
    return;
  }
  select_by(cut_at(values_.data(), found_, k), values_.data(), found_, k, indices);
  for (size_t i = 0; i < k; ++i) indices[i] = indices_[indices[i]];
}

void select_exact(const float* x, size_t count, size_t k, SimdLevel level, uint32_t* indices) {
  Candidates candidates;
  candidates.guess(count, k, [&](size_t i) { return x[i]; });
  std::array<float, Candidates::kMostBlock> unused;
  for (size_t begin = 0; begin < count; begin += unused.size()) {
    candidates.add(collect_function(level, false), x + begin, nullptr, begin, std::min(unused.size(), count - begin),
                   unused.data());
  }
  candidates.select(x, count, k, indices);
}

}  // namespace ccore
