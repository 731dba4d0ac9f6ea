#include "memory/segment_transfer.h"

#include <algorithm>

namespace ccore_cuda {

SegmentsSent send_segments(VirtualMemory* driver, const Segments& segments, const ExportName& name,
                           const std::vector<const DescriptorChannel*>& channels,
                           const std::function<void(size_t)>& sent, const std::function<bool()>& wait) {
  const std::vector<Segment>& list = segments.list();
  for (size_t first = 0; first < list.size(); first += kMostDescriptors) {
    DescriptorMessage message{};
    message.place = name.place;
    message.state = name.state;
    message.first = static_cast<uint32_t>(first);
    message.total = static_cast<uint32_t>(list.size());
    message.count = static_cast<uint32_t>(std::min(kMostDescriptors, list.size() - first));
    std::vector<Descriptor> descriptors;
    for (size_t i = 0; i < message.count; ++i) {
      message.bytes[i] = list[first + i].bytes;
      descriptors.emplace_back(driver->export_descriptor(list[first + i].memory));
      if (descriptors.back().number() < 0) return SegmentsSent::kRefused;
    }
    for (size_t i = 0; i < channels.size(); ++i) {
      auto result = DescriptorChannel::Sent::kFull;
      while ((result = channels[i]->send(message, descriptors)) == DescriptorChannel::Sent::kFull) {
        if (!wait()) return SegmentsSent::kLate;
      }
      if (result == DescriptorChannel::Sent::kFailed) return SegmentsSent::kRefused;
      sent(i);
    }
  }
  return SegmentsSent::kAll;
}

Arrivals::~Arrivals() {
  for (auto& one : arrivals_) release(&one.second);
}

void Arrivals::release(Arrival* arrival) {
  for (const Piece& piece : arrival->pieces) driver_->release(piece.memory);
  arrival->pieces.clear();
}

void Arrivals::take(int rank, const ReceivedDescriptors& received) {
  const DescriptorMessage& message = received.message;
  Arrival& arrival = arrivals_[{rank, message.place}];
  if (message.first == 0) {
    // The owner may have given up an earlier export of the place halfway.
    release(&arrival);
    arrival = {message.state, message.total, false, {}};
  }
  if (received.descriptors.empty() || message.first != arrival.pieces.size() || message.state != arrival.state) {
    arrival.is_damaged = true;
  }
  for (size_t i = 0; i < received.descriptors.size() && !arrival.is_damaged; ++i) {
    PhysicalMemory memory = 0;
    if (driver_->import_descriptor(received.descriptors[i].number(), &memory)) {
      arrival.pieces.push_back({memory, static_cast<size_t>(message.bytes[i])});
    } else {
      arrival.is_damaged = true;
    }
  }
}

Arrivals::Mapping Arrivals::map(int rank, const ExportName& name) {
  const auto found = arrivals_.find({rank, name.place});
  if (found == arrivals_.end()) return {0, 0};
  Arrival& arrival = found->second;
  Mapping mapping{0, 0};
  if (!arrival.is_damaged && arrival.state == name.state && arrival.pieces.size() == arrival.total) {
    mapping.address = driver_->map(arrival.pieces);
    for (const Piece& piece : arrival.pieces) mapping.bytes += piece.bytes;
  }
  release(&arrival);  // a mapping keeps its memory
  arrivals_.erase(found);
  return mapping;
}

}  // namespace ccore_cuda
