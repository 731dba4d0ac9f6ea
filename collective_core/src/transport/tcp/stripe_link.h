// A link over several TCP connections. The stream is cut into frames, and each socket takes the next frame when it
// has room: a path that is twice as fast carries twice as much, whatever the paths are.
//
// What overtook is kept in a bounded window; a socket whose next frame lies beyond it is not read until the others
// have caught up, so that its sender is held back by TCP itself. No socket waits for itself: its offsets only grow.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "transport/link.h"
#include "transport/tcp/backlog.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/host_silence.h"
#include "transport/tcp/reassembly.h"

namespace ccore {

class StripeLink : public Link {
 public:
  // who: the peer in words, for error texts. frame_bytes: the most in one frame, the same on both sides.
  StripeLink(std::vector<Connection> connections, size_t frame_bytes, std::string who);

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return sockets_.front().fd.get(); }
  void add_fds(short events, std::vector<pollfd>* fds) const override;
  size_t turn_bytes() const override { return window_bytes_; }
  size_t inline_bytes(const std::byte*, size_t) const override { return 16 * 1024; }
  const char* name() const override { return "tcp"; }
  Seals* header_seals() override { return &header_seals_; }

 private:
  // What a socket receives behind the frame at hand: the next header, and small frames as a whole, in one call.
  static constexpr size_t kAheadBytes = 4096;

  struct Socket {
    Socket(UniqueFd its_fd, Seals its_seals, size_t its_number)
        : fd(std::move(its_fd)), silence(fd.get()), seals(std::move(its_seals)), number(its_number) {}

    UniqueFd fd;
    HostSilence silence;
    Seals seals;
    size_t number;
    // The frame that leaves; all of it has left when out_rest is 0.
    FrameHeader out;
    size_t out_header_done = 0;
    size_t out_rest = 0;
    bool full = false;  // it took less than it was given, the last time
    // The frame that arrives; between frames in_rest is 0.
    uint64_t in_offset = 0;  // of its next byte
    size_t in_rest = 0;
    uint64_t in_least_offset = 0;
    bool held = false;  // its next bytes lie beyond the window
    std::string ended;  // why nothing more will come; empty while it may
    bool closed_whole = false;  // it ended by a close between two frames
    std::array<std::byte, kAheadBytes> ahead;
    size_t ahead_begin = 0;
    size_t ahead_end = 0;
  };

  // Header and bytes of the socket's frame, as much of it as it takes. first: the stream's byte at out_position_.
  void push(Socket* socket, const std::byte* first, size_t offered);
  void cut(Socket* socket, uint64_t end);
  void limit_backlogs();
  // Some bytes of each socket, to where they belong. A closed socket is not an error while others may still
  // have bytes: a peer that is done closes them all.
  void pump();
  // Returns how many bytes came.
  size_t pull(Socket* socket);
  // Uses up what was received ahead; false when the socket's next bytes have no place yet.
  bool settle(Socket* socket);
  [[noreturn]] void lost(const Socket& socket, const std::string& why) const;

  std::vector<Socket> sockets_;
  Seals header_seals_;
  size_t frame_bytes_;
  size_t window_bytes_;
  std::string who_;
  Reassembly in_;
  Backlog backlog_;
  uint64_t out_position_ = 0;  // bytes that the caller knows to be taken
  uint64_t out_cut_ = 0;       // bytes that are in frames
  uint64_t out_offered_ = 0;   // the end of the last offer
  std::optional<Deadline> patience_;  // with the sockets that are still open, since one was closed
};

}  // namespace ccore
