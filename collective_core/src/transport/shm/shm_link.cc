#include "transport/shm/shm_link.h"

#include <algorithm>
#include <cstring>

namespace ccore {

ShmLink::ShmLink(const Segment& segment, int local_rank, int peer_local_rank)
    : peer_doorbell_(segment.doorbell(peer_local_rank)), out_(segment.map_ring(local_rank, peer_local_rank)) {
  try {
    in_ = segment.map_ring(peer_local_rank, local_rank);
  } catch (...) {
    Segment::unmap_ring(out_);
    throw;
  }
}

ShmLink::~ShmLink() {
  Segment::unmap_ring(out_);
  Segment::unmap_ring(in_);
}

size_t ShmLink::try_send(const std::byte* data, size_t size) {
  const uint64_t tail = out_.control->tail.load(std::memory_order_acquire);
  const size_t room = out_.size - static_cast<size_t>(head_ - tail);
  const size_t count = std::min(room, size);
  if (count == 0) return 0;
  std::memcpy(out_.data + head_ % out_.size, data, count);
  head_ += count;
  out_.control->head.store(head_, std::memory_order_release);
  ring(peer_doorbell_);
  return count;
}

Bytes ShmLink::peek(size_t) {
  const uint64_t head = in_.control->head.load(std::memory_order_acquire);
  return Bytes{in_.data + tail_ % in_.size, static_cast<size_t>(head - tail_)};
}

void ShmLink::consume(size_t size) {
  tail_ += size;
  in_.control->tail.store(tail_, std::memory_order_release);
  ring(peer_doorbell_);
}

size_t ShmLink::try_recv(std::byte* data, size_t size) {
  const Bytes ready = peek(1);
  const size_t count = std::min(ready.size, size);
  if (count == 0) return 0;
  std::memcpy(data, ready.data, count);
  consume(count);
  return count;
}

}  // namespace ccore
