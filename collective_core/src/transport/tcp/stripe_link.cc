#include "transport/tcp/stripe_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "transport/tcp/socket.h"

namespace ccore {
namespace {

// Enough frames in the window for a socket that is many times faster than another; see docs/environment.md.
constexpr size_t kWindowFrames = 16;
constexpr size_t kMostWindowBytes = 8 * 1024 * 1024;
// How long bytes that are wanted may stay out after a socket was closed between two frames.
constexpr int64_t kCloseGraceMs = 2000;

size_t window_for(size_t sockets, size_t frame_bytes) {
  return std::max(2 * sockets * frame_bytes, std::min(kWindowFrames * sockets * frame_bytes, kMostWindowBytes));
}

}  // namespace

StripeLink::StripeLink(std::vector<Connection> connections, size_t frame_bytes, std::string who)
    // The headers of operations are in the stream, which has no connection of its own: they take the first one's key.
    : header_seals_(make_seals(connections.front().session, kHeaderPurpose, who)),
      frame_bytes_(frame_bytes),
      window_bytes_(window_for(connections.size(), frame_bytes)),
      who_(std::move(who)),
      in_(window_bytes_),
      backlog_(connections.size()) {
  sockets_.reserve(connections.size());
  for (Connection& connection : connections) {
    const size_t number = sockets_.size();
    const std::string name = format("%s (connection %zu of %zu)", who_.c_str(), number + 1, connections.size());
    sockets_.emplace_back(std::move(connection.fd), make_seals(connection.session, "frames", name), number);
  }
  limit_backlogs();
}

void StripeLink::lost(const Socket& socket, const std::string& why) const {
  throw Error(CC_ERROR_REMOTE, format("lost connection %zu of %zu to %s: %s", socket.number + 1, sockets_.size(),
                                      who_.c_str(), why.c_str()));
}

void StripeLink::limit_backlogs() {
  for (const Socket& socket : sockets_) limit_unsent(socket.fd.get(), backlog_.limit(socket.number));
}

void StripeLink::cut(Socket* socket, uint64_t end) {
  socket->out.offset = out_cut_;
  socket->out.length = static_cast<uint32_t>(std::min<uint64_t>(end - out_cut_, frame_bytes_));
  socket->out.tag = tag_of(socket->out, socket->seals.out);
  socket->out_header_done = 0;
  socket->out_rest = socket->out.length;
}

void StripeLink::push(Socket* socket, const std::byte* first, size_t offered) {
  const uint64_t from = socket->out.offset + socket->out.length - socket->out_rest;
  const uint64_t ahead = from - out_position_;
  const size_t ready = offered > ahead ? static_cast<size_t>(std::min<uint64_t>(socket->out_rest, offered - ahead)) : 0;
  const size_t header_rest = sizeof(FrameHeader) - socket->out_header_done;
  if (header_rest + ready == 0) return;
  auto* header = reinterpret_cast<std::byte*>(&socket->out) + socket->out_header_done;
  // sendmsg() only reads from them.
  iovec parts[2] = {{header, header_rest}, {const_cast<std::byte*>(first + (ready > 0 ? ahead : 0)), ready}};
  msghdr message{};
  message.msg_iov = header_rest > 0 ? parts : parts + 1;
  message.msg_iovlen = (header_rest > 0 ? 1u : 0u) + (ready > 0 ? 1u : 0u);
  const ssize_t sent = sendmsg(socket->fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) lost(*socket, errno_text(errno));
  if (sent < 0 && socket->silence.is_too_long()) lost(*socket, socket->silence.text());
  if (sent > 0) socket->silence.moved();
  const auto count = static_cast<size_t>(std::max<ssize_t>(sent, 0));
  const size_t of_header = std::min(count, header_rest);
  socket->out_header_done += of_header;
  socket->out_rest -= count - of_header;
  backlog_.sent(socket->number, count);
  socket->full = count < header_rest + ready;
}

size_t StripeLink::try_send(const std::byte* data, size_t size) {
  const uint64_t end = out_position_ + size;
  out_offered_ = end;
  for (Socket& socket : sockets_) {
    if (socket.out_rest > 0) push(&socket, data, size);
    // One new frame for each socket in turn; it is only cut for a socket that takes some of it.
    if (socket.out_rest > 0 || out_cut_ >= end) continue;
    cut(&socket, end);
    push(&socket, data, size);
    if (socket.out_header_done == 0) {
      socket.out_rest = 0;
      continue;
    }
    out_cut_ += socket.out.length;
    socket.seals.out.advance();
  }
  const bool all_full = std::all_of(sockets_.begin(), sockets_.end(), [](const Socket& one) { return one.full; });
  if (all_full && backlog_.full()) limit_backlogs();
  uint64_t taken = out_cut_;
  for (const Socket& socket : sockets_) {
    if (socket.out_rest > 0) taken = std::min(taken, socket.out.offset + socket.out.length - socket.out_rest);
  }
  // A shorter offer than the last one: what is beyond it was taken all the same, and is reported when it is offered again.
  taken = std::min(taken, end);
  const auto count = static_cast<size_t>(taken - out_position_);
  out_position_ = taken;
  return count;
}

bool StripeLink::settle(Socket* socket) {
  while (true) {
    const size_t there = socket->ahead_end - socket->ahead_begin;
    if (socket->in_rest == 0) {
      std::array<std::byte, sizeof(FrameHeader)> bytes;
      if (there < bytes.size()) return true;
      std::memcpy(bytes.data(), socket->ahead.data() + socket->ahead_begin, bytes.size());
      const FrameRules rules{socket->in_least_offset, in_.position() + kMostAheadBytes,
                             static_cast<uint32_t>(frame_bytes_)};
      const FrameHeader header = parse_frame(bytes, rules, socket->seals);
      if (!in_.announce(header.offset, header.length)) {
        throw Error(CC_ERROR_REMOTE, who_ + " sent a malformed frame: its bytes overlap those of another");
      }
      socket->ahead_begin += bytes.size();
      socket->seals.in.advance();
      socket->in_offset = header.offset;
      socket->in_rest = header.length;
      socket->in_least_offset = header.offset + header.length;
      continue;
    }
    if (there == 0) return in_.space(socket->in_offset, socket->in_rest).size > 0;
    const Space space = in_.space(socket->in_offset, std::min(there, socket->in_rest));
    if (space.size == 0) return false;
    std::memcpy(space.data, socket->ahead.data() + socket->ahead_begin, space.size);
    in_.received(socket->in_offset, space.size);
    socket->ahead_begin += space.size;
    socket->in_offset += space.size;
    socket->in_rest -= space.size;
  }
}

size_t StripeLink::pull(Socket* socket) {
  const size_t before = socket->ahead_begin;
  socket->held = !settle(socket);
  if (socket->held || !socket->ended.empty()) return socket->ahead_begin - before;
  // At most the beginning of a header is left.
  const size_t kept = socket->ahead_end - socket->ahead_begin;
  std::memmove(socket->ahead.data(), socket->ahead.data() + socket->ahead_begin, kept);
  socket->ahead_begin = 0;
  socket->ahead_end = kept;
  const Space space = in_.space(socket->in_offset, socket->in_rest);
  const bool whole = space.size == socket->in_rest;  // what follows on the socket is the next header
  iovec parts[2] = {{space.data, space.size}, {socket->ahead.data() + kept, whole ? kAheadBytes - kept : 0}};
  msghdr message{};
  message.msg_iov = socket->in_rest > 0 ? parts : parts + 1;
  message.msg_iovlen = (socket->in_rest > 0 ? 1u : 0u) + (whole ? 1u : 0u);
  const ssize_t got = recvmsg(socket->fd.get(), &message, MSG_DONTWAIT);
  if (got <= 0) {
    if (got == 0) {
      socket->ended = "it was closed";
      socket->closed_whole = socket->in_rest == 0 && socket->ahead_end == 0;
    } else if (errno != EAGAIN && errno != EINTR) {
      socket->ended = errno_text(errno);
    } else if (socket->silence.is_too_long()) {
      socket->ended = socket->silence.text();
    }
    return 0;
  }
  socket->silence.moved();
  const auto count = static_cast<size_t>(got);
  const size_t placed = std::min(count, socket->in_rest > 0 ? space.size : 0);
  if (placed > 0) in_.received(socket->in_offset, placed);
  socket->in_offset += placed;
  socket->in_rest -= placed;
  socket->ahead_end += count - placed;
  socket->held = !settle(socket);
  return count;
}

void StripeLink::pump() {
  size_t came = 0;
  for (Socket& socket : sockets_) came += pull(&socket);
  if (came > 0) {
    patience_.reset();
    return;
  }
  const Socket* closed = nullptr;
  bool open = false;
  for (const Socket& socket : sockets_) {
    if (!socket.ended.empty() && !socket.closed_whole) lost(socket, socket.ended);
    if (socket.ended.empty()) open = true;
    if (!socket.ended.empty() && !closed) closed = &socket;
  }
  if (!closed) return;
  // A peer that is done closes them all, and what it sent last may still be on its way on a slower path.
  if (open && !patience_) patience_ = Deadline::in_ms(kCloseGraceMs);
  if (!open || patience_->passed()) lost(*closed, closed->ended);
}

Bytes StripeLink::peek(size_t at_least) {
  Bytes ready = in_.peek(at_least);
  if (ready.size >= at_least) return ready;
  pump();
  return in_.peek(at_least);
}

void StripeLink::consume(size_t size) { in_.consume(size); }

size_t StripeLink::try_recv(std::byte* data, size_t size) {
  const size_t ready = in_.take(data, size);
  if (ready > 0) return ready;
  in_.offer(data, size);
  try {
    pump();
  } catch (...) {
    in_.withdraw();
    throw;
  }
  in_.withdraw();
  return in_.take(data, size);
}

void StripeLink::add_fds(short events, std::vector<pollfd>* fds) const {
  for (const Socket& socket : sockets_) {
    const bool wanted = events == POLLIN ? !socket.held && socket.ended.empty()
                                         : socket.out_rest > 0 || (socket.full && out_cut_ < out_offered_);
    if (wanted) fds->push_back(pollfd{socket.fd.get(), events, 0});
  }
}

}  // namespace ccore
