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
    char* memory = nullptr;
    if (has_threads_) {
      asynchronous_blocks_.push_back(std::make_unique<AsynchronousMemory>(wanted));
      memory = asynchronous_blocks_.back()->get();
    } else {
      blocks_.push_back(std::make_unique<DeviceMemoryBlock>(wanted, false));
      memory = blocks_.back()->as<char>();
    }
    const int number = buffers_->export_allocation(memory, wanted);
    if (number < 0) throw Error(CC_ERROR_SYSTEM, "a peer did not map the staging memory of this rank in time");
    bytes_ = wanted;
    place_.memory = memory;
    buffers_->addresses_of(number, place_.addresses);
  }
  return place_;
}

}  // namespace ccore_cuda
