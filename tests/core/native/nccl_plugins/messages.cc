// Data: all versions, random sizes over several connections and threads, short system calls.
#include <dlfcn.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "any_net.h"
#include "cases.h"
#include "connection.h"
#include "expect_plugin.h"

namespace {

// How many of 16 calls are cut short; 0: none.
std::atomic<unsigned> g_short_calls{0};
thread_local unsigned t_state = 12345;

bool cut_this_call() {
  t_state = t_state * 1664525u + 1013904223u;
  return (t_state >> 28) < g_short_calls.load(std::memory_order_relaxed);
}

// The first part of the message, at most 1 + some bytes of it.
msghdr shortened(const msghdr& message, iovec* part) {
  msghdr cut = message;
  *part = message.msg_iov[0];
  part->iov_len = std::min<size_t>(part->iov_len, 1 + (t_state >> 8) % 5000);
  cut.msg_iov = part;
  cut.msg_iovlen = 1;
  return cut;
}

}  // namespace

// The plugin finds these instead of libc's: symbols of the program come first.
extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const msghdr*, int)>(dlsym(RTLD_NEXT, "sendmsg"));
  if (!cut_this_call() || message->msg_iovlen == 0) return real(fd, message, flags);
  iovec part;
  const msghdr cut = shortened(*message, &part);
  return real(fd, &cut, flags);
}

extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, msghdr*, int)>(dlsym(RTLD_NEXT, "recvmsg"));
  if (!cut_this_call() || message->msg_iovlen == 0) return real(fd, message, flags);
  iovec part;
  msghdr cut = shortened(*message, &part);
  return real(fd, &cut, flags);
}

namespace ccore::nccl {
namespace {

constexpr size_t kMostInFlight = 32;

void check(Result result) {
  if (result != kSuccess) throw std::runtime_error(last_warning());
}

struct Message {
  std::vector<unsigned char> data;
  size_t size = 0;
  void* request = nullptr;
  bool done = false;
};

void write_pattern(Message* message, unsigned seed) {
  for (size_t i = 0; i < message->size; ++i) message->data[i] = static_cast<unsigned char>((i * 31 + seed) >> (i % 3));
}

bool has_pattern(const Message& message, unsigned seed) {
  for (size_t i = 0; i < message.size; ++i) {
    if (message.data[i] != static_cast<unsigned char>((i * 31 + seed) >> (i % 3))) return false;
  }
  return true;
}

// Sends messages of these sizes over a connection and checks what arrives. Several are in flight, receives are posted
// as late as chance has it, and requests are tested in any order.
void exchange(const AnyNet& net, const Connection& connection, const std::vector<size_t>& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::deque<Message> sends, receives;
  size_t sent = 0, received = 0, checked = 0;
  const double end = seconds_now() + 60;
  while (checked < sizes.size()) {
    EXPECT_THAT(seconds_now() < end);
    if (sent < sizes.size() && sends.size() < kMostInFlight && random() % 2 == 0) {
      Message message;
      message.size = sizes[sent];
      message.data.resize(std::max<size_t>(message.size, 1));
      write_pattern(&message, seed + static_cast<unsigned>(sent));
      sends.push_back(std::move(message));
      check(net.send(connection.send_comm, sends.back().data.data(), sends.back().size, &sends.back().request));
      if (sends.back().request) {
        ++sent;
      } else {
        sends.pop_back();
      }
    }
    if (received < sizes.size() && receives.size() < kMostInFlight && random() % 3 == 0) {
      Message message;
      const size_t capacity = sizes[received] + random() % 100;
      message.data.resize(std::max<size_t>(capacity, 1));
      receives.push_back(std::move(message));
      check(net.receive(connection.receive_comm, receives.back().data.data(), capacity, &receives.back().request));
      if (receives.back().request) {
        ++received;
      } else {
        receives.pop_back();
      }
    }
    for (Message& one : sends) {
      int done = 0;
      if (!one.done && random() % 2 == 0) check(net.test(one.request, &done, nullptr));
      one.done = one.done || done;
    }
    for (Message& one : receives) {
      int done = 0, size = -1;
      if (!one.done && random() % 2 == 0) check(net.test(one.request, &done, &size));
      if (!done) continue;
      one.done = true;
      one.size = static_cast<size_t>(size);
    }
    while (!sends.empty() && sends.front().done) sends.pop_front();
    while (!receives.empty() && receives.front().done) {
      EXPECT_THAT(receives.front().size == sizes[checked]);
      EXPECT_THAT(has_pattern(receives.front(), seed + static_cast<unsigned>(checked)));
      receives.pop_front();
      ++checked;
    }
  }
}

// Of all magnitudes up to `most`, empty ones included.
std::vector<size_t> random_sizes(size_t count, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<size_t> sizes;
  while (sizes.size() < count) {
    const size_t limit = size_t{1} << random() % 21;
    sizes.push_back(random() % (std::min(limit, most) + 1));
  }
  return sizes;
}

void exchange_in_threads(const AnyNet& net, size_t threads, size_t connections, size_t messages, size_t most) {
  std::vector<std::thread> running;
  std::vector<std::exception_ptr> errors(threads);
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      try {
        for (size_t k = 0; k < connections; ++k) {
          const Connection connection = connect_pair(net);
          const auto seed = static_cast<unsigned>(100 * i + k);
          exchange(net, connection, random_sizes(messages, most, seed), seed);
          close_pair(net, connection);
        }
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& one : running) one.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

void test_versions(const std::string& library) {
  for (int version = kOldestNet; version <= kNewestNet; ++version) {
    const AnyNet net = load_net(library, version);
    EXPECT_THAT(net.name == "ccore");
    check(net.init(keep_warning));
    int count = 0;
    check(net.devices(&count));
    EXPECT_THAT(count == 1);
    PropertiesV6 properties{};
    check(net.properties(0, &properties));
    EXPECT_THAT(std::string(properties.name) == "lo" && properties.pci_path == nullptr);
    EXPECT_THAT(properties.pointer_support == kPointerHost && properties.most_receives == 1);
    EXPECT_THAT(properties.speed_mbps > 0 && properties.most_comms > 1000);
    EXPECT_THAT(net.properties(1, &properties) == kInvalidArgument);
    const Connection connection = connect_pair(net);
    exchange(net, connection, {0, 1, 1000, 64 << 10, (64 << 10) + 1, 1 << 20, 0, 3 << 20}, 7);
    close_pair(net, connection);
    check(net.finalize());
  }
}

void test_messages(const std::string& library) {
  for (const char* streams : {"0", "1", "3"}) {
    setenv("CCORE_NCCL_STREAMS", streams, 1);
    setenv("CCORE_NCCL_THREADS", "2", 1);
    const AnyNet net = load_net(library, kNewestNet);
    check(net.init(keep_warning));
    exchange_in_threads(net, 3, 2, 400, 1 << 20);
    check(net.finalize());
  }
  // Chunks of one page, so that every message is in many of them.
  setenv("CCORE_NCCL_CHUNK_BYTES", "4096", 1);
  setenv("CCORE_NCCL_INLINE_BYTES", "100", 1);
  const AnyNet net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  exchange_in_threads(net, 2, 1, 300, 200000);
  check(net.finalize());
  for (const char* name :
       {"CCORE_NCCL_STREAMS", "CCORE_NCCL_THREADS", "CCORE_NCCL_CHUNK_BYTES", "CCORE_NCCL_INLINE_BYTES"}) {
    unsetenv(name);
  }
}

void test_short_calls(const std::string& library) {
  setenv("CCORE_NCCL_STREAMS", "3", 1);
  setenv("CCORE_NCCL_THREADS", "2", 1);
  const AnyNet net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  g_short_calls = 10;
  exchange_in_threads(net, 2, 1, 150, 300000);
  g_short_calls = 0;
  check(net.finalize());
  unsetenv("CCORE_NCCL_STREAMS");
  unsetenv("CCORE_NCCL_THREADS");
}

}  // namespace ccore::nccl
