// A link over one reliable RDMA connection: the sender writes into a ring in the receiver's registered memory, and the
// receiver reduces from there. docs/rdma.md has the protocol on one page.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "transport/link.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/ring_memory.h"
#include "transport/seal.h"

namespace ccore {

class RdmaLink : public Link {
 public:
  // ring_bytes: of the ring that the peer writes to, and of the one that is sent from; a power of two. session: of a
  // proven connection to the peer. own, who: this rank and the peer in words. Throws CC_ERROR_SYSTEM.
  RdmaLink(std::shared_ptr<RdmaDevice> device, size_t ring_bytes, const Session& session, std::string own,
           std::string who);
  ~RdmaLink() override;
  RdmaLink(const RdmaLink&) = delete;
  RdmaLink& operator=(const RdmaLink&) = delete;

  RdmaEndpoint endpoint() const;
  // Throws CC_ERROR_REMOTE for what no peer may announce, CC_ERROR_SYSTEM for a peer that cannot be reached.
  void connect(const RdmaEndpoint& peer);

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return queue_.fd(); }
  // One channel wakes for both directions.
  void add_fds(short, std::vector<pollfd>* fds) const override { fds->push_back(pollfd{queue_.fd(), POLLIN, 0}); }
  size_t turn_bytes() const override { return 256 * 1024; }
  size_t inline_bytes() const override { return 16 * 1024; }
  const char* name() const override { return "rdma"; }
  Seals* header_seals() override { return &header_seals_; }

 private:
  // Writes from the sending ring, or from data itself if the device takes it inline.
  bool write(const std::byte* data, size_t size);
  void post(ibv::SendWr* work, bool more_memory);
  void poll();
  void poll_once();
  void take(const ibv::Wc& completion);
  void take_data(uint32_t size, uint32_t immediate);
  void take_credit(uint32_t immediate);
  void give_credit();
  // Nothing moved: before a caller may sleep, the next completion must wake it.
  void nothing_moved();
  void break_with(const std::string& why);
  [[noreturn]] void lost() const;

  std::shared_ptr<RdmaDevice> device_;
  std::string own_;
  std::string who_;
  Seals header_seals_;
  RingMemory in_;
  RingMemory out_;
  RingMemory credits_;
  QueuePair queue_;  // ends before the memory that it reaches
  RdmaEndpoint peer_;
  bool connected_ = false;

  // Positions in the two streams of bytes, and counts of messages.
  uint64_t sent_ = 0;          // written to the peer's ring
  uint64_t sent_until_ = 0;    // that the peer has consumed
  uint64_t freed_ = 0;         // of the sending ring, by completions
  uint64_t messages_sent_ = 0;
  uint64_t messages_until_ = 0;  // for which the peer had receives again
  uint64_t arrived_ = 0;
  uint64_t consumed_ = 0;
  uint64_t consumed_told_ = 0;
  uint64_t messages_arrived_ = 0;
  uint64_t messages_told_ = 0;
  uint64_t credits_sent_ = 0;
  uint64_t credits_arrived_ = 0;
  uint32_t receives_due_ = 0;  // to be posted again

  struct Signal {
    uint64_t works;  // posted up to it
    uint64_t sent;   // end in the sending ring
  };
  std::deque<Signal> signals_;
  uint64_t works_posted_ = 0;
  uint64_t works_ended_ = 0;
  uint64_t works_signalled_ = 0;
  uint64_t sent_signalled_ = 0;

  int polls_ = 0;  // in a row that found nothing
  std::string broken_;  // why nothing moves any more; empty while it may
};

}  // namespace ccore
