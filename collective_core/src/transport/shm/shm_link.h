// A link over two byte rings in the shared segment of the node.
#pragma once

#include <memory>

#include "transport/link.h"
#include "transport/shm/segment.h"

namespace ccore {

class ShmLink : public Link {
 public:
  // The segment outlives the link.
  ShmLink(const Segment& segment, int local_rank, int peer_local_rank);
  ~ShmLink() override;
  ShmLink(const ShmLink&) = delete;
  ShmLink& operator=(const ShmLink&) = delete;

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return -1; }
  const char* name() const override { return "shm"; }

 private:
  Doorbell* peer_doorbell_;
  Ring out_;
  Ring in_;
  uint64_t head_ = 0;  // own copies of what only this side stores
  uint64_t tail_ = 0;
};

}  // namespace ccore
