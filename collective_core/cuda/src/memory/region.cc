#include "memory/region.h"

#include <cstring>

#include "error.h"
#include "memory/pinned_mapping.h"

namespace ccore_cuda {
namespace {

constexpr int64_t kRegionLimitNs = 20000000000;

struct RegionOutcome {
  char error[160];
  int32_t buffer;
};

class DeviceRegions : public Regions {
 public:
  DeviceRegions(const Meeting& meeting, size_t bytes, Buffers* buffers) : buffers_(buffers) {
    RegionOutcome outcome{};
    try {
      own_ = std::make_unique<DeviceMemoryBlock>(bytes);
      // Clearing has ended before a peer writes.
      check(cudaDeviceSynchronize(), "clearing memory on the GPU");
      outcome.buffer = buffers->export_own(own_->as<char>(), bytes, kRegionLimitNs);
    } catch (const Error& error) {
      put(outcome.error, error.what());
    }
    const auto all = meeting.exchange(outcome);
    require_all(all);
    for (const RegionOutcome& one : all) numbers_.push_back(one.buffer);
  }
  char* of(int rank) const override { return buffers_->mapped(rank, numbers_[static_cast<size_t>(rank)]); }

 private:
  Buffers* const buffers_;
  std::unique_ptr<DeviceMemoryBlock> own_;
  std::vector<int> numbers_;
};

class HostRegions : public Regions {
 public:
  HostRegions(const Meeting& meeting, size_t bytes)
      : memory_(meeting, bytes * static_cast<size_t>(meeting.size()), "host memory for packets"), stride_(bytes) {}
  char* of(int rank) const override { return memory_.get() + stride_ * static_cast<size_t>(rank); }

 private:
  PinnedMapping memory_;
  const size_t stride_;
};

}  // namespace

std::unique_ptr<Regions> make_device_regions(const Meeting& meeting, size_t slot_bytes, Buffers* buffers) {
  return std::make_unique<DeviceRegions>(meeting, region_bytes(meeting.size(), slot_bytes), buffers);
}

std::unique_ptr<Regions> make_host_regions(const Meeting& meeting, size_t slot_bytes) {
  return std::make_unique<HostRegions>(meeting, region_bytes(meeting.size(), slot_bytes));
}

}  // namespace ccore_cuda
