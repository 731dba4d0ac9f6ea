#include "transport/tcp/tcp_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace ccore {
namespace {

constexpr size_t kStagingBytes = 256 * 1024;

}  // namespace

TcpLink::TcpLink(Connection connection, std::string who)
    : fd_(std::move(connection.fd)),
      silence_(fd_.get()),
      who_(std::move(who)),
      header_seals_(make_seals(connection.session, kHeaderPurpose, who_)),
      staged_(kStagingBytes) {}

size_t TcpLink::try_send(const std::byte* data, size_t size) {
  const ssize_t sent = send(fd_.get(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) lost(errno_text(errno));
  if (sent < 0) return nothing_moved();
  silence_.moved();
  return static_cast<size_t>(sent);
}

size_t TcpLink::receive(std::byte* data, size_t size) {
  const ssize_t got = recv(fd_.get(), data, size, MSG_DONTWAIT);
  if (got == 0) throw Error(CC_ERROR_REMOTE, who_ + " closed its connection");
  if (got < 0 && errno != EAGAIN && errno != EINTR) lost(errno_text(errno));
  if (got < 0) return nothing_moved();
  silence_.moved();
  return static_cast<size_t>(got);
}

size_t TcpLink::nothing_moved() {
  if (silence_.is_too_long()) lost(silence_.text());
  return 0;
}

void TcpLink::lost(const std::string& why) const {
  throw Error(CC_ERROR_REMOTE, "lost the connection to " + who_ + ": " + why);
}

Bytes TcpLink::peek(size_t at_least) {
  if (end_ - begin_ < at_least) {
    std::memmove(staged_.data(), staged_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    end_ += receive(staged_.data() + end_, staged_.size() - end_);
  }
  return Bytes{staged_.data() + begin_, end_ - begin_};
}

void TcpLink::consume(size_t size) { begin_ += size; }

size_t TcpLink::try_recv(std::byte* data, size_t size) {
  if (begin_ == end_) return receive(data, size);
  const size_t count = std::min(size, end_ - begin_);
  std::memcpy(data, staged_.data() + begin_, count);
  begin_ += count;
  return count;
}

}  // namespace ccore
