#include "memory/known_segments.h"

#include <iterator>
#include <utility>

namespace ccore_cuda {

void KnownSegments::use(Export* which) const {
  which->last_use = operation_;
  which->is_captured = which->is_captured || is_captured_;
}

const KnownSegments::Export* KnownSegments::find(uintptr_t begin, size_t bytes) {
  for (Export& one : exports_) {
    if (!one.segments.contain(begin, bytes) || !one.segments.are_mapped(begin, bytes)) continue;
    use(&one);
    return &one;
  }
  return nullptr;
}

const KnownSegments::Export* KnownSegments::add(Segments segments, int number) {
  exports_.push_back({std::move(segments), number, 0, false});
  use(&exports_.back());
  return &exports_.back();
}

void KnownSegments::begin_operation(bool is_captured) {
  ++operation_;
  is_captured_ = is_captured;
}

std::vector<int> KnownSegments::forget(size_t most) {
  std::vector<int> places;
  const auto forget_one = [&](std::list<Export>::iterator which) {
    if (which->number >= 0) places.push_back(which->number);
    return exports_.erase(which);
  };
  for (auto one = exports_.begin(); one != exports_.end();) {
    one = one->is_captured || one->segments.are_mapped() ? std::next(one) : forget_one(one);
  }
  while (exports_.size() > most) {
    auto oldest = exports_.end();
    for (auto one = exports_.begin(); one != exports_.end(); ++one) {
      if (!one->is_captured && (oldest == exports_.end() || one->last_use < oldest->last_use)) oldest = one;
    }
    if (oldest == exports_.end()) break;
    forget_one(oldest);
  }
  return places;
}

}  // namespace ccore_cuda
