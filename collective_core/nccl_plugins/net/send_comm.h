// The sending end of a connection.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common/unique_fd.h"
#include "net/comm.h"
#include "net/settings.h"
#include "net/workers.h"

namespace ccore::nccl {

class SendPort;

class SendComm : public Comm {
 public:
  // sockets: the lead socket first.
  SendComm(std::vector<UniqueFd> sockets, const Settings& settings, std::string peer);
  ~SendComm() override;

  // *request stays null while too many are in flight.
  Result send(const void* data, size_t size, Request** request);
  Result test(Request* request, int* done, int* size) override;

 private:
  friend class SendPort;

  struct Slot : Request {
    const std::byte* data = nullptr;
    size_t size = 0;
    size_t piece = 0;              // how much a socket takes at once
    std::atomic<size_t> left{0};   // bytes that the kernel has not taken; 1 for an empty message
    bool lead_too = true;          // the lead socket takes pieces as well
    bool used = false;             // of the caller's thread
  };

  struct Chunk {
    Slot* slot = nullptr;
    ChunkHeader header{};
    size_t header_done = 0;
    size_t data_done = 0;
  };

  // The next piece of the oldest message that is not given out yet; false if there is none.
  bool cut(Chunk* chunk, bool lead);
  void progress();

  const Settings settings_;
  std::shared_ptr<Workers> workers_;
  Slot slots_[kRequests];
  uint32_t posted_ = 0;  // the sequence number of the next message; of the caller's thread

  std::mutex cutting_;
  uint32_t cut_end_ = 0;       // messages before this one are posted
  uint32_t cut_sequence_ = 0;  // the message that is being cut
  size_t cut_offset_ = 0;
  std::atomic<uint32_t> uncut_{0};  // messages with pieces left

  std::unique_ptr<SendPort> lead_;
  std::vector<std::shared_ptr<SendPort>> ports_;
  size_t next_port_ = 0;
  int64_t looked_ns_ = 0;
};

}  // namespace ccore::nccl
