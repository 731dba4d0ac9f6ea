// A rank that is late and does not read must not be taken for a dead host: its connections last longer than
// CCORE_TCP_USER_TIMEOUT_MS, which the kernel would also count while their windows are closed.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cases.h"
#include "common/clock.h"
#include "expect.h"
#include "sessions.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stripe_link.h"
#include "transport/tcp/tcp_link.h"

namespace test {
namespace {

constexpr const char* kPeer = "rank 1 (host test, pid 1)";
constexpr size_t kPieceBytes = 256 * 1024;
constexpr size_t kFrameBytes = 64 * 1024;

// Of real connections: other sockets have no such limit.
Ends tcp_connections(size_t count) {
  const ccore::UniqueFd listener = ccore::listen_on(ccore::resolve("127.0.0.1", 0), false);
  Ends ends;
  for (size_t i = 0; i < count; ++i) {
    ccore::UniqueFd first = ccore::connect_to(ccore::local_address(listener.get()), ccore::Deadline::in_ms(10000));
    pollfd waiting{listener.get(), POLLIN, 0};
    EXPECT(poll(&waiting, 1, 10000) == 1, "nobody to accept");
    ccore::UniqueFd second(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT(static_cast<bool>(second), "accept");
    ccore::configure_connection(second.get());
    const SessionPair pair = sessions(static_cast<int>(i));
    ends.first.push_back(ccore::Connection{std::move(first), pair.connecting});
    ends.second.push_back(ccore::Connection{std::move(second), pair.accepting});
  }
  return ends;
}

std::unique_ptr<ccore::Link> link_over(std::vector<ccore::Connection> connections) {
  if (connections.size() > 1) return std::make_unique<ccore::StripeLink>(std::move(connections), kFrameBytes, kPeer);
  return std::make_unique<ccore::TcpLink>(std::move(connections.front()), kPeer);
}

class Path {
 public:
  explicit Path(size_t connections) {
    Ends ends = tcp_connections(connections);
    sender_ = link_over(std::move(ends.first));
    reader_ = link_over(std::move(ends.second));
  }

  // All bytes are alike, so that any offer continues the one before.
  size_t send() {
    const size_t count = sender_->try_send(piece_.data(), piece_.size());
    sent_ += count;
    return count;
  }
  void read() { read_ += reader_->try_recv(place_.data(), place_.size()); }
  size_t on_its_way() const { return sent_ - read_; }

 private:
  std::unique_ptr<ccore::Link> sender_;
  std::unique_ptr<ccore::Link> reader_;
  std::vector<std::byte> piece_ = std::vector<std::byte>(kPieceBytes, std::byte{7});
  std::vector<std::byte> place_ = std::vector<std::byte>(kPieceBytes);
  size_t sent_ = 0;
  size_t read_ = 0;
};

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

}  // namespace

void late_readers() {
  setenv("CCORE_TCP_USER_TIMEOUT_MS", "1000", 1);
  Path paths[] = {Path(1), Path(3)};
  unsetenv("CCORE_TCP_USER_TIMEOUT_MS");
  const ccore::Deadline late = ccore::Deadline::in_ms(3000);
  bool moved = true;
  while (moved || !late.passed()) {
    moved = false;
    for (Path& path : paths) moved = path.send() > 0 || moved;
    if (!moved) wait_a_moment();
  }
  const ccore::Deadline patience = ccore::Deadline::in_ms(30000);
  for (Path& path : paths) {
    EXPECT(path.on_its_way() > 0, "nothing was sent");
    while (path.on_its_way() > 0) {
      EXPECT(!patience.passed(), path.on_its_way(), " bytes did not arrive");
      path.read();
    }
    while (path.send() == 0) {
      EXPECT(!patience.passed(), "the sender does not go on");
      wait_a_moment();
    }
  }
}

}  // namespace test
