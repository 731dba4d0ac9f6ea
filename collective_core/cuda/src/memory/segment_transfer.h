// Segments from their owner to its peers: the owner sends descriptors before it puts the export on the board, so a peer
// that sees the export there has already received them, and does not wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "memory/descriptor_channel.h"
#include "memory/segments.h"
#include "memory/virtual_memory.h"

namespace ccore_cuda {

struct ExportName {
  uint32_t place;
  uint32_t state;  // of the place, once the export is on the board
};

enum class SegmentsSent { kAll, kLate, kRefused };
// sent(i): a message went to channels[i]. wait: called while a channel is full; false: the deadline has passed.
// kRefused: the driver exports no descriptor, or a peer is gone.
SegmentsSent send_segments(VirtualMemory* driver, const Segments& segments, const ExportName& name,
                           const std::vector<const DescriptorChannel*>& channels,
                           const std::function<void(size_t)>& sent, const std::function<bool()>& wait);

// What has arrived from peers and is not mapped yet.
class Arrivals {
 public:
  explicit Arrivals(VirtualMemory* driver) : driver_(driver) {}
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // Imports the memory and closes the descriptors.
  void take(int rank, const ReceivedDescriptors& received);
  struct Mapping {
    uintptr_t address;  // 0: some of it did not arrive, or cannot be mapped
    size_t bytes;
  };
  Mapping map(int rank, const ExportName& name);

 private:
  struct Arrival {
    uint32_t state;
    uint32_t total;
    bool is_damaged;
    std::vector<Piece> pieces;
  };
  void release(Arrival* arrival);

  VirtualMemory* const driver_;
  std::map<std::pair<int, uint32_t>, Arrival> arrivals_;  // by rank and place
};

}  // namespace ccore_cuda
