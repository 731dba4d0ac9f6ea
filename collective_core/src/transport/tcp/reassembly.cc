#include "transport/tcp/reassembly.h"

#include <algorithm>
#include <cstring>

#include "common/error.h"

namespace ccore {
namespace {

// Behind the window, for what is peeked at across its end.
constexpr size_t kSlackBytes = 64;

}  // namespace

Reassembly::Reassembly(size_t window_bytes)
    : window_bytes_(window_bytes), window_(new std::byte[window_bytes + kSlackBytes]) {
  runs_.reserve(64);
  announced_.reserve(64);
}

void Reassembly::offer(std::byte* data, size_t size) { offered_ = Space{data, size}; }

bool Reassembly::announce(uint64_t offset, size_t length) {
  const uint64_t end = offset + length;
  if (end < offset || offset < position_) return false;
  const auto overlaps = [&](const auto& other) { return offset < other.end && other.begin < end; };
  if (std::any_of(runs_.begin(), runs_.end(), overlaps)) return false;
  if (std::any_of(announced_.begin(), announced_.end(), overlaps)) return false;
  announced_.push_back(Range{offset, end});
  return true;
}

Space Reassembly::space(uint64_t offset, size_t length) const {
  const uint64_t ahead = offset - position_;
  if (in_offered(offset)) {
    return Space{offered_.data + ahead, static_cast<size_t>(std::min<uint64_t>(length, offered_.size - ahead))};
  }
  if (ahead >= window_bytes_) return Space{};
  const auto at = static_cast<size_t>(offset % window_bytes_);
  const auto left = static_cast<size_t>(window_bytes_ - ahead);
  return Space{window_.get() + at, std::min({length, left, window_bytes_ - at})};
}

void Reassembly::drop_announced(uint64_t begin, uint64_t end) {
  for (Range& range : announced_) {
    if (range.begin != begin) continue;
    range.begin = end;
    if (range.begin == range.end) {
      range = announced_.back();
      announced_.pop_back();
    }
    return;
  }
  throw Error(CC_ERROR_INTERNAL, "bytes of a frame that was not announced");
}

void Reassembly::received(uint64_t offset, size_t size) {
  const Run run{offset, offset + size, in_offered(offset)};
  drop_announced(run.begin, run.end);
  auto next = std::find_if(runs_.begin(), runs_.end(), [&](const Run& other) { return other.begin >= run.end; });
  const bool joins_next = next != runs_.end() && next->begin == run.end && next->placed == run.placed;
  if (next != runs_.begin()) {
    const auto before = next - 1;
    if (before->end == run.begin && before->placed == run.placed) {
      before->end = joins_next ? next->end : run.end;
      if (joins_next) runs_.erase(next);
      return;
    }
  }
  if (joins_next) {
    next->begin = run.begin;
  } else {
    runs_.insert(next, run);
  }
}

void Reassembly::advance(size_t size) {
  position_ += size;
  runs_.front().begin = position_;
  if (runs_.front().begin == runs_.front().end) runs_.erase(runs_.begin());
}

size_t Reassembly::take(std::byte* data, size_t size) {
  size_t taken = 0;
  while (taken < size && !runs_.empty() && runs_.front().begin == position_) {
    const Run& run = runs_.front();
    auto count = static_cast<size_t>(std::min<uint64_t>(run.end - run.begin, size - taken));
    if (!run.placed) {
      const auto at = static_cast<size_t>(position_ % window_bytes_);
      count = std::min(count, window_bytes_ - at);
      std::memcpy(data + taken, window_.get() + at, count);
    }
    advance(count);
    taken += count;
  }
  return taken;
}

Bytes Reassembly::peek(size_t at_least) {
  if (runs_.empty() || runs_.front().begin != position_) return Bytes{};
  const Run& run = runs_.front();
  if (run.placed) throw Error(CC_ERROR_INTERNAL, "bytes are wanted in another place than was offered for them");
  const auto at = static_cast<size_t>(position_ % window_bytes_);
  const auto there = static_cast<size_t>(run.end - run.begin);
  size_t size = std::min(there, window_bytes_ - at);
  if (size < std::min(there, at_least)) {
    const size_t slack = std::min(there - size, kSlackBytes);
    std::memcpy(window_.get() + window_bytes_, window_.get(), slack);
    size += slack;
  }
  return Bytes{window_.get() + at, size};
}

void Reassembly::consume(size_t size) {
  if (size > 0) advance(size);
}

}  // namespace ccore
