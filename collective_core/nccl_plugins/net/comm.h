// What both directions of a connection share: the frame of a chunk, requests, and the first failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "abi/nccl.h"
#include "common/unique_fd.h"
#include "engine/not_inherited.h"

namespace ccore::nccl {

// In front of every chunk. A message is one or more chunks, each on whatever socket was free; its sequence number is
// its place among the messages of the connection. Both ends have the same byte order, as NCCL requires.
struct ChunkHeader {
  uint32_t sequence;
  uint32_t length;
  uint64_t offset;
  uint64_t total;  // of the message
};
static_assert(sizeof(ChunkHeader) == 24);

// NCCL has up to 32 requests in flight on a connection.
constexpr uint32_t kRequests = 64;

class Comm;

struct Request {
  Comm* comm = nullptr;
};

class Comm {
 public:
  Comm(std::string peer, const std::vector<UniqueFd>& sockets);
  virtual ~Comm() = default;
  virtual Result test(Request* request, int* done, int* size) = 0;

  // Any thread may call it. The first failure is logged, then kept.
  Result fail(Result result, const std::string& why);
  Result failure() const { return static_cast<Result>(failed_.load(std::memory_order_acquire)); }

 protected:
  // Before the sockets are closed.
  void before_close() { not_inherited_.reset(); }

 private:
  const std::string peer_;
  // In a child that the program forks, such as a worker that loads data, the sockets are copies of this one. A peer
  // would else not see that this process has died while the child lives.
  const UniqueFd nothing_;
  std::optional<NotInherited> not_inherited_;
  std::mutex failing_;
  std::atomic<int> failed_{kSuccess};
};

// What the end of a connection means: errno 0 stands for a close by the peer.
std::string loss_text(const char* doing, int error_number);

}  // namespace ccore::nccl
