// The parts of a reliable connection to one peer: its queue pairs, and the queue in which their work completes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/rdma/device.h"

namespace ccore {

// Where a peer may write its data.
struct RemoteRing {
  uint64_t address = 0;
  uint32_t bytes = 0;  // a power of two
  uint32_t unused = 0;
  std::array<uint32_t, kMostRdmaRails> rkeys{};
};

// One of the ports of an end.
struct RemotePort {
  ibv::Gid gid{};
  uint32_t mtu = 0;  // IBV_MTU_*
  uint32_t link_layer = 0;
  uint32_t lid = 0;
  uint32_t credit_rkey = 0;
};

struct RemoteQueuePair {
  uint32_t number = 0;
  uint32_t first_packet = 0;
};

// What each end tells the other, once, over their authenticated connection. Travels as bytes.
struct RdmaEndpoint {
  uint32_t rails = 0;
  uint32_t queue_pairs = 0;  // of each rail
  std::array<RemotePort, kMostRdmaRails> ports{};
  std::array<RemoteQueuePair, kMostQueuePairs> pairs{};  // of each rail the first one, of each the second one, ...
  RemoteRing ring;
  uint64_t credit_address = 0;
};

// Where the queue pairs of one peer complete, with a channel that wakes a sleeping thread.
class CompletionQueue {
 public:
  // Throws CC_ERROR_SYSTEM.
  CompletionQueue(const RdmaDevice& device, uint32_t entries);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  ibv::Cq* handle() const { return cq_; }
  // What poll() waits on after arm().
  int fd() const { return channel_->fd; }
  int poll(ibv::Wc* completions, int most) { return context_->ops.poll_cq(cq_, most, completions); }
  // The next completion makes fd() readable. Completions that came before do not: poll once more.
  void arm();

 private:
  void destroy();

  const Verbs& verbs_;
  ibv::Context* context_;
  ibv::CompChannel* channel_ = nullptr;
  ibv::Cq* cq_ = nullptr;
};

class QueuePair {
 public:
  // completions: must live longer. Throws CC_ERROR_SYSTEM.
  QueuePair(const RdmaDevice& device, const CompletionQueue& completions, uint32_t sends, uint32_t receives);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Makes the queue pair ready to send to and to receive from that one of the peer. Throws CC_ERROR_SYSTEM.
  void connect(const RemotePort& port, const RemoteQueuePair& pair);

  // Bytes that a send may carry itself; 0 where the device refuses any.
  uint32_t inline_bytes() const { return inline_bytes_; }
  uint32_t number() const { return qp_->qp_num; }
  uint32_t first_packet() const { return psn_; }
  // Both return 0 or an errno.
  int send(ibv::SendWr* work);
  // `count` receives of no memory: for the immediate of a write.
  int receive(uint32_t count);

 private:
  void create(ibv::Cq* cq, uint32_t sends, uint32_t receives);

  const RdmaDevice& device_;
  const Verbs& verbs_;
  ibv::Context* context_;
  ibv::Qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t psn_;
};

}  // namespace ccore
