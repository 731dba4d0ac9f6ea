// A link over one or several reliable RDMA connections: the sender writes into a ring in the receiver's registered
// memory, and the receiver reduces from there. docs/rdma.md has the protocol on one page.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/link.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/ring_memory.h"
#include "transport/seal.h"

namespace ccore {

class RdmaLink : public Link {
 public:
  // session: of a proven connection to the peer. own, who: this rank and the peer in words. Throws CC_ERROR_SYSTEM.
  RdmaLink(RdmaRails rails, const Session& session, std::string own, std::string who);
  ~RdmaLink() override;
  RdmaLink(const RdmaLink&) = delete;
  RdmaLink& operator=(const RdmaLink&) = delete;

  // Before connect().
  RdmaEndpoint endpoint() const;
  // As many as both ends have, once it is connected.
  size_t queue_pairs() const { return queues_.size(); }
  // Of those that were connected, which are the first ones; the peer may have fewer than this rank.
  size_t rails() const { return std::min<size_t>(rails_.size(), peer_.rails); }
  // Throws CC_ERROR_REMOTE for what no peer may announce, CC_ERROR_SYSTEM for a peer that cannot be reached.
  void connect(const RdmaEndpoint& peer);

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return completions_.front().fd(); }
  // The channel of a rail wakes for both directions.
  void add_fds(short, std::vector<pollfd>* fds) const override {
    for (const CompletionQueue& one : completions_) fds->push_back(pollfd{one.fd(), POLLIN, 0});
  }
  size_t turn_bytes() const override { return 256 * 1024; }
  size_t inline_bytes(const std::byte* payload, size_t size) const override {
    return source_of(payload, size) ? 0 : 16 * 1024;
  }
  const char* name() const override { return "rdma"; }
  Seals* header_seals() override { return &header_seals_; }

 private:
  // One queue pair, and the works that were posted to it.
  struct Queue {
    size_t rail = 0;
    std::unique_ptr<QueuePair> pair;
    uint64_t posted = 0;
    uint64_t signalled = 0;
    uint64_t ended = 0;
    uint32_t receives_due = 0;  // to be posted again
  };
  // A write that still reads memory, in the order of posting: what is free once this and all before have ended.
  struct Flight {
    size_t queue;
    uint64_t index;   // in its queue
    uint64_t sent;    // position in the stream
    uint64_t copied;  // position in the sending ring
  };
  // A message that came before an earlier one, on another queue pair.
  struct Early {
    uint32_t size = 0;  // 0: none
    bool switches = false;
  };
  static constexpr uint32_t kMessages = 256;  // that may be under way to a peer that does not look

  // The registered memory from which so many bytes leave without a copy; null: they are copied.
  const ibv::Mr* source_of(const std::byte* data, size_t size, size_t rail = 0) const;
  // Posts some leading bytes; false: none.
  bool write(const std::byte* data, size_t size, bool without_copy);
  bool make_room_to_copy();
  void post(size_t queue, ibv::SendWr* work, bool signalled);
  // Posts writes of nothing whose completions say that all before them have ended.
  void flush();
  void post_nothing(size_t queue);
  bool lending() const { return freed_ < lent_until_; }
  // Up to where the caller may change what it has offered.
  uint64_t takeable() const { return lending() ? std::max(freed_, lent_from_) : sent_; }
  void poll();
  void poll_once();
  void take(const ibv::Wc& completion, size_t rail);
  void take_data(uint32_t size, uint32_t immediate);
  void deliver(const Early& message);
  void take_credit(uint32_t immediate);
  void give_credit();
  std::unique_ptr<RingMemory> larger_ring(size_t than, bool remote);
  void grow_in();
  void switch_in();
  // Nothing moved: before a caller may sleep, the next completion must wake it.
  void nothing_moved();
  void probe();
  void break_with(const std::string& why, size_t rail = 0);
  [[noreturn]] void lost() const;

  RdmaRails rails_;
  std::string own_;
  std::string who_;
  Seals header_seals_;
  std::unique_ptr<RingMemory> in_;
  std::unique_ptr<RingMemory> next_in_;  // larger, announced to the peer
  std::unique_ptr<RingMemory> out_;      // null until something is copied
  std::unique_ptr<RingMemory> old_out_;  // smaller, until what was copied there has left
  RingMemory credits_;
  std::deque<CompletionQueue> completions_;  // by rail
  std::vector<Queue> queues_;                // end before the memory that they reach
  RdmaEndpoint peer_;          // its ring: where to write next
  bool connected_ = false;

  // Positions in the two streams of bytes, and counts of messages.
  uint64_t sent_ = 0;        // written to the peer's ring
  uint64_t taken_ = 0;       // of it, what callers need not offer again
  uint64_t sent_until_ = 0;  // that the peer has consumed
  uint64_t freed_ = 0;       // has arrived, by completions
  uint64_t lent_from_ = 0;   // what leaves from the caller's own memory
  uint64_t lent_until_ = 0;
  uint64_t copied_ = 0;  // to the sending ring; its bytes are counted on their own
  uint64_t copied_freed_ = 0;
  uint64_t out_from_ = 0;  // the first position of the present sending ring
  uint64_t messages_sent_ = 0;
  uint64_t messages_until_ = 0;  // for which the peer had receives again
  bool ring_changed_ = false;    // the next message is the first one in a new ring
  uint64_t arrived_ = 0;
  uint64_t consumed_ = 0;
  uint64_t consumed_told_ = 0;
  uint64_t messages_arrived_ = 0;
  uint64_t messages_told_ = 0;
  std::optional<uint64_t> switched_at_;  // from there on, bytes are in next_in_
  uint64_t credits_sent_ = 0;
  uint64_t credits_arrived_ = 0;
  std::array<Early, kMessages> early_;
  std::deque<Flight> flights_;

  bool may_grow_ = true;
  int polls_ = 0;       // in a row that found nothing
  int64_t still_since_ns_ = 0;  // since when nothing has completed while a caller waited; 0: something has
  std::string broken_;  // why nothing moves any more; empty while it may
  size_t broken_rail_ = 0;
};

}  // namespace ccore
