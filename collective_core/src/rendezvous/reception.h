// A rank's listeners for the other ranks, served by a thread: while the rank is busy or waits, no queue of strangers
// grows in front of the other ranks.
#pragma once

#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/sha256.h"
#include "common/unique_fd.h"
#include "transport/tcp/acceptor.h"

namespace ccore {

class Reception {
 public:
  // Throws CC_ERROR_SYSTEM when the process has no descriptor or no thread left.
  Reception(std::vector<UniqueFd> listeners, const Digest& secret);
  // Closes the listeners, and the connections that next() did not return.
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  // The next connection that has proven the secret; nothing at the deadline. Throws what Acceptor::next() and the alarm
  // throw.
  std::optional<Accepted> next(const Deadline& deadline, const Alarm& alarm);

 private:
  void serve(Acceptor* acceptor);
  std::optional<Accepted> take();

  UniqueFd arrival_;  // readable after an arrival or a failure
  UniqueFd end_;      // readable when the thread has to end
  std::mutex mutex_;
  std::deque<Accepted> arrived_;   // under mutex_
  std::exception_ptr failure_;     // of the thread, which has ended; under mutex_
  std::thread thread_;
};

}  // namespace ccore
