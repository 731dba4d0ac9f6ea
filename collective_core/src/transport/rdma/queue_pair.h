// A reliable connection to one peer: a queue pair with a completion queue and a channel that wakes a sleeping thread.
#pragma once

#include <cstdint>

#include "transport/rdma/device.h"

namespace ccore {

// What each end tells the other, once, over their authenticated connection. Travels as bytes.
struct RdmaEndpoint {
  ibv::Gid gid{};
  uint32_t qp_num = 0;
  uint32_t psn = 0;
  uint32_t mtu = 0;  // IBV_MTU_*
  uint32_t link_layer = 0;
  uint32_t lid = 0;
  uint32_t ring_rkey = 0;
  uint64_t ring_address = 0;
  uint64_t ring_bytes = 0;
  uint64_t credit_address = 0;
  uint32_t credit_rkey = 0;
  uint32_t unused = 0;
};

class QueuePair {
 public:
  // Throws CC_ERROR_SYSTEM.
  QueuePair(const RdmaDevice& device, uint32_t sends, uint32_t receives);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Makes the queue pair ready to send and to receive. Throws CC_ERROR_SYSTEM.
  void connect(const RdmaEndpoint& peer);
  void describe(RdmaEndpoint* own) const;

  // Bytes that a send may carry itself; 0 where the device refuses any.
  uint32_t inline_bytes() const { return inline_bytes_; }
  uint32_t number() const { return qp_->qp_num; }
  // What poll() waits on after arm().
  int fd() const { return channel_->fd; }
  int poll(ibv::Wc* completions, int most) { return context_->ops.poll_cq(cq_, most, completions); }
  // The next completion makes fd() readable. Completions that came before do not: poll once more.
  void arm();
  // Both return 0 or an errno.
  int send(ibv::SendWr* work);
  // `count` receives of no memory: for the immediate of a write.
  int receive(uint32_t count);

 private:
  void create(uint32_t sends, uint32_t receives);
  void destroy();

  const RdmaDevice& device_;
  const Verbs& verbs_;
  ibv::Context* context_;
  ibv::CompChannel* channel_ = nullptr;
  ibv::Cq* cq_ = nullptr;
  ibv::Qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t psn_;
};

}  // namespace ccore
