#include "transport/rdma/queue_pair.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

#include "common/error.h"

namespace ccore {
namespace {

// Headers of operations with small payloads leave without a copy; more makes each entry of the queue larger.
constexpr uint32_t kInlineBytes = 220;
// About 1 s for an acknowledgement (4.096 us * 2^18), times the retries. Not 7, at which Soft-RoCE retries for ever.
constexpr uint8_t kAckTimeout = 18;
constexpr uint8_t kRetries = 6;
// 7 would retry for ever. By the credits a receive is always posted, so a retry is a defect that must be seen.
constexpr uint8_t kReceiverRetries = 6;
constexpr uint8_t kReceiverTimer = 12;  // 0.64 ms
constexpr uint8_t kHops = 255;

[[noreturn]] void fail_with(const RdmaDevice& device, const char* what, int error) {
  throw Error(CC_ERROR_SYSTEM, format("cannot %s on %s: %s", what, device.text().c_str(), errno_text(error).c_str()));
}

}  // namespace

CompletionQueue::CompletionQueue(const RdmaDevice& device, uint32_t entries)
    : verbs_(device.verbs()), context_(device.context()) {
  try {
    errno = 0;
    channel_ = verbs_.create_comp_channel(context_);
    if (!channel_) fail_with(device, "create a completion channel", errno);
    const int flags = fcntl(channel_->fd, F_GETFL);
    if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("a completion channel");
    errno = 0;
    cq_ = verbs_.create_cq(context_, static_cast<int>(entries), nullptr, channel_, 0);
    if (!cq_) fail_with(device, "create a completion queue", errno);
  } catch (...) {
    destroy();
    throw;
  }
}

CompletionQueue::~CompletionQueue() { destroy(); }

void CompletionQueue::destroy() {
  if (cq_) verbs_.destroy_cq(cq_);
  if (channel_) verbs_.destroy_comp_channel(channel_);
}

void CompletionQueue::arm() {
  // An event of an earlier completion would end the next wait at once.
  ibv::Cq* cq = nullptr;
  void* unused = nullptr;
  while (verbs_.get_cq_event(channel_, &cq, &unused) == 0) verbs_.ack_cq_events(cq, 1);
  context_->ops.req_notify_cq(cq_, 0);
}

QueuePair::QueuePair(const RdmaDevice& device, const CompletionQueue& completions, uint32_t sends, uint32_t receives)
    : device_(device), verbs_(device.verbs()), context_(device.context()), psn_(std::random_device()() & 0xffffff) {
  try {
    create(completions.handle(), sends, receives);
  } catch (...) {
    if (qp_) verbs_.destroy_qp(qp_);
    throw;
  }
}

void QueuePair::create(ibv::Cq* cq, uint32_t sends, uint32_t receives) {
  ibv::QpInitAttr init{};
  init.send_cq = cq;
  init.recv_cq = cq;
  init.cap = ibv::QpCap{sends, receives, 1, 1, kInlineBytes};
  init.qp_type = ibv::kQpReliable;
  errno = 0;
  qp_ = verbs_.create_qp(device_.pd(), &init);
  if (!qp_) {  // some devices refuse inline data instead of lowering the limit
    init.cap = ibv::QpCap{sends, receives, 1, 1, 0};
    errno = 0;
    qp_ = verbs_.create_qp(device_.pd(), &init);
  }
  if (!qp_) fail_with(device_, "create a queue pair", errno);
  inline_bytes_ = std::min(init.cap.max_inline_data, kInlineBytes);
  ibv::QpAttr attr{};
  attr.qp_state = ibv::kQpInit;
  attr.port_num = device_.port();
  attr.qp_access_flags = ibv::kAccessRemoteWrite;
  const int error =
      verbs_.modify_qp(qp_, &attr, ibv::kQpState | ibv::kQpPkeyIndex | ibv::kQpPort | ibv::kQpAccessFlags);
  if (error != 0) fail_with(device_, "initialise a queue pair", error);
}

QueuePair::~QueuePair() { verbs_.destroy_qp(qp_); }

void QueuePair::connect(const RemotePort& peer, const RemoteQueuePair& pair) {
  ibv::QpAttr attr{};
  attr.qp_state = ibv::kQpReadyToReceive;
  // Of unequal ports, the smaller packets pass both.
  attr.path_mtu = std::min(static_cast<int>(peer.mtu), device_.attributes().active_mtu);
  attr.dest_qp_num = pair.number;
  attr.rq_psn = pair.first_packet;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kReceiverTimer;
  attr.ah_attr.port_num = device_.port();
  attr.ah_attr.dlid = static_cast<uint16_t>(peer.lid);
  // InfiniBand routes by GID only from one subnet to another; RoCE always.
  attr.ah_attr.is_global = device_.ethernet() || peer.gid.words[0] != device_.gid().words[0];
  if (attr.ah_attr.is_global) {
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = device_.gid_index();
    attr.ah_attr.grh.hop_limit = kHops;
    attr.ah_attr.grh.traffic_class = device_.traffic_class();
  }
  int error = verbs_.modify_qp(qp_, &attr,
                               ibv::kQpState | ibv::kQpAv | ibv::kQpPathMtu | ibv::kQpDestination | ibv::kQpRqPsn |
                                   ibv::kQpMaxDestReadAtomic | ibv::kQpMinRnrTimer);
  if (error != 0) {
    throw Error(CC_ERROR_SYSTEM, format("%s finds no way to GID %s: %s", device_.text().c_str(),
                                        text_of_gid(peer.gid).c_str(), errno_text(error).c_str()));
  }
  attr = ibv::QpAttr{};
  attr.qp_state = ibv::kQpReadyToSend;
  attr.sq_psn = psn_;
  attr.timeout = kAckTimeout;
  attr.retry_cnt = kRetries;
  attr.rnr_retry = kReceiverRetries;
  attr.max_rd_atomic = 1;
  error = verbs_.modify_qp(
      qp_, &attr,
      ibv::kQpState | ibv::kQpSqPsn | ibv::kQpTimeout | ibv::kQpRetryCount | ibv::kQpRnrRetry | ibv::kQpMaxReadAtomic);
  if (error != 0) fail_with(device_, "make a queue pair ready to send", error);
}

int QueuePair::send(ibv::SendWr* work) {
  ibv::SendWr* bad = nullptr;
  return context_->ops.post_send(qp_, work, &bad);
}

int QueuePair::receive(uint32_t count) {
  constexpr size_t kBatch = 32;
  while (count > 0) {
    std::array<ibv::RecvWr, kBatch> works{};
    const size_t batch = std::min<size_t>(count, kBatch);
    for (size_t i = 0; i + 1 < batch; ++i) works[i].next = &works[i + 1];
    ibv::RecvWr* bad = nullptr;
    const int error = context_->ops.post_recv(qp_, works.data(), &bad);
    if (error != 0) return error;
    count -= static_cast<uint32_t>(batch);
  }
  return 0;
}

}  // namespace ccore
