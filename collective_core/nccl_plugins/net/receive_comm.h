// The receiving end of a connection.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common/unique_fd.h"
#include "net/comm.h"
#include "net/settings.h"
#include "net/workers.h"

namespace ccore::nccl {

class ReceivePort;

class ReceiveComm : public Comm {
 public:
  // sockets: the lead socket first.
  ReceiveComm(std::vector<UniqueFd> sockets, const Settings& settings, std::string peer);
  ~ReceiveComm() override;

  // *request stays null while too many are in flight.
  Result receive(void* data, size_t capacity, Request** request);
  Result test(Request* request, int* done, int* size) override;

 private:
  friend class ReceivePort;

  static constexpr uint64_t kUnknown = ~uint64_t{0};

  struct Slot : Request {
    bool complete() const;

    std::byte* data = nullptr;
    size_t capacity = 0;
    std::atomic<uint64_t> posted{0};  // its sequence number with kPosted; 0 while it is free
    std::atomic<uint64_t> total{0};   // kUnknown until the first chunk
    std::atomic<uint64_t> got{0};
    bool used = false;  // of the caller's thread
  };

  Slot* posted(uint32_t sequence);
  // The slot of the chunk. Null while NCCL has not asked for the message; the port is then signalled when it does.
  Slot* slot_for(const ChunkHeader& header, ReceivePort* port);
  bool is_sane(const Slot& slot, const ChunkHeader& header);
  // A socket was closed, in the middle of a chunk or not.
  void ended(bool in_the_middle);
  Result check_ended();

  std::shared_ptr<Workers> workers_;
  Slot slots_[kRequests];
  uint32_t posted_ = 0;  // of the caller's thread

  std::mutex holding_;  // of the ports' flags held_, against the posting of a slot
  size_t held_ = 0;

  std::unique_ptr<ReceivePort> lead_;
  std::vector<std::shared_ptr<ReceivePort>> ports_;
  std::atomic<size_t> ended_{0};
  std::atomic<int64_t> ended_at_ns_{0};
};

}  // namespace ccore::nccl
