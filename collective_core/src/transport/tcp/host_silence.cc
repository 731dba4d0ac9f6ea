#include "transport/tcp/host_silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/error.h"
#include "transport/tcp/socket.h"

namespace ccore {
namespace {

constexpr int64_t kLookAgainMs = 100;

}  // namespace

HostSilence::HostSilence(int fd) : fd_(fd), limit_ms_(user_timeout_ms_from_env()) { drop_user_timeout(fd); }

bool HostSilence::is_too_long() {
  if (!look_) look_ = Deadline::in_ms(limit_ms_);
  if (!look_->passed()) return false;
  look_ = Deadline::in_ms(kLookAgainMs);
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;  // it is not TCP
  // Behind a closed window nothing is on its way, and the probes of the window are answered.
  return info.tcpi_unacked > 0 && info.tcpi_last_ack_recv >= static_cast<uint32_t>(limit_ms_);
}

std::string HostSilence::text() const {
  return format("its host has acknowledged nothing for %.1f s", static_cast<double>(limit_ms_) / 1000);
}

}  // namespace ccore
