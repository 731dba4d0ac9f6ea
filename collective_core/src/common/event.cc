#include "common/event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "common/error.h"
#include "common/log.h"

namespace ccore {

UniqueFd make_event() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw_errno("eventfd");
  return fd;
}

void signal_event(int fd) {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable anyway.
  if (::write(fd, &one, sizeof one) < 0) log(LogLevel::info, "eventfd: %s", errno_text(errno).c_str());
}

void clear_event(int fd) {
  uint64_t count = 0;
  if (::read(fd, &count, sizeof count) < 0 && errno != EAGAIN) {
    log(LogLevel::info, "eventfd: %s", errno_text(errno).c_str());
  }
}

}  // namespace ccore
