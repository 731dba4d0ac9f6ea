#include "memory/staging.h"

#include <algorithm>

#include "capture_mode.h"

namespace ccore_cuda {
namespace {

constexpr size_t kFirstBytes = size_t{4} << 20;

}  // namespace

const Staging::Place& Staging::reserve(size_t bytes) {
  if (bytes > bytes_) {
    size_t wanted = std::max(kFirstBytes, bytes_ * 2);
    while (wanted < bytes) wanted *= 2;
    const RelaxedCapture relaxed;
    settle_();
    blocks_.push_back(std::make_unique<DeviceMemoryBlock>(wanted, false));
    char* const memory = blocks_.back()->as<char>();
    const int number = buffers_->export_own(memory, wanted, limit_ns_);
    bytes_ = wanted;
    place_.memory = memory;
    buffers_->addresses_of(number, place_.addresses);
  }
  return place_;
}

}  // namespace ccore_cuda
