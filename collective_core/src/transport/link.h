// One direction-pair of a byte stream to one peer. A link knows bytes; it never knows a collective.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccore {

struct Seals;

struct Bytes {
  const std::byte* data = nullptr;
  size_t size = 0;
};

// No call blocks. A broken connection throws CC_ERROR_REMOTE with the peer's rank in the text.
//
// Bytes that were offered and not taken may already be on their way, and memory that was offered and not filled may
// already hold later bytes: the caller offers the same again, some of it or more, until it is all done.
class Link {
 public:
  virtual ~Link() = default;
  // Takes some leading bytes, maybe none; returns how many.
  virtual size_t try_send(const std::byte* data, size_t size) = 0;
  // Received bytes, contiguous, still in the transport's own memory: reduce from here, then consume. Fewer
  // than at_least when no more has arrived.
  virtual Bytes peek(size_t at_least) = 0;
  virtual void consume(size_t size) = 0;
  // Moves some received bytes to data, maybe none; returns how many.
  virtual size_t try_recv(std::byte* data, size_t size) = 0;
  // What to poll() while waiting; -1: the wait is on the doorbell of the shared segment.
  virtual int fd() const = 0;
  // The same for a link that has several of them; appends those that could end a wait for `events`, which is
  // POLLIN or POLLOUT.
  virtual void add_fds(short events, std::vector<pollfd>* fds) const { fds->push_back(pollfd{fd(), events, 0}); }
  // Bytes worth offering at once, before another link or the other direction gets its turn: by default few enough
  // to stay in cache on the way through.
  virtual size_t turn_bytes() const { return 64 * 1024; }
  // How many of the first `size` bytes of payload are better copied behind their header than sent by a call of their own.
  virtual size_t inline_bytes(const std::byte*, size_t) const { return 1024; }
  virtual const char* name() const = 0;
  // What authenticates the headers of operations on this link; null where no network lies between: in shared memory.
  virtual Seals* header_seals() { return nullptr; }

  uint64_t payload_bytes_sent = 0;  // counted by the code that streams payload
  uint64_t payload_bytes_received = 0;
};

}  // namespace ccore
