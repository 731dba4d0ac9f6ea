#include "net/comm.h"

#include <fcntl.h>

#include <utility>

#include "common/error.h"
#include "log.h"

namespace ccore::nccl {

Comm::Comm(std::string peer, const std::vector<UniqueFd>& sockets)
    : peer_(std::move(peer)), nothing_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  if (!nothing_) throw_errno("open /dev/null");
  std::vector<int> fds;
  for (const UniqueFd& socket : sockets) fds.push_back(socket.get());
  not_inherited_.emplace(nothing_.get(), std::move(fds));
}

Result Comm::fail(Result result, const std::string& why) {
  const std::lock_guard<std::mutex> lock(failing_);
  if (failure() == kSuccess) {
    // Logged before any call returns it: NCCL may end the process as soon as one fails.
    warn("NET/ccore : %s: %s", peer_.c_str(), why.c_str());
    failed_.store(result, std::memory_order_release);
  }
  return failure();
}

std::string loss_text(const char* doing, int error_number) {
  const std::string what = error_number == 0 ? "the peer closed the connection" : errno_text(error_number);
  return std::string(doing) + ": " + what + "; the peer's process ended or its host is unreachable: see its log";
}

}  // namespace ccore::nccl
