// What goes wrong: peers that die, strangers at the port, handles of another net, sizes that differ.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "any_net.h"
#include "cases.h"
#include "common/unique_fd.h"
#include "connection.h"
#include "expect_plugin.h"
#include "net/handle.h"
#include "transport/tcp/handshake.h"

namespace ccore::nccl {
namespace {

using Buffer = std::vector<unsigned char>;

void check(Result result) {
  if (result != kSuccess) throw std::runtime_error(last_warning());
}

// Until the request ends in some way.
Result outcome(const AnyNet& net, void* request, double seconds) {
  const double end = seconds_now() + seconds;
  int done = 0;
  Result result = kSuccess;
  while (!done && result == kSuccess) {
    if (seconds_now() > end) throw std::runtime_error("the request does not end");
    result = net.test(request, &done, nullptr);
  }
  return result;
}

// In a child that sends half of a large message and is then killed, while a process that it forked lives on.
void lose_sender(const AnyNet& net) {
  alignas(8) char handle[kHandleBytes];
  void* listener = nullptr;
  void* receive_comm = nullptr;
  check(net.listen(0, handle, &listener));
  int life[2];  // of that other process
  EXPECT_THAT(pipe2(life, O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(life[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* send_comm = nullptr;
    while (!send_comm) {
      if (net.connect(0, handle, &send_comm) != kSuccess) _exit(1);
    }
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      char byte = 0;
      _exit(static_cast<int>(read(life[0], &byte, 1)));
    }
    Buffer data(64 << 20);
    void* request = nullptr;
    net.send(send_comm, data.data(), data.size(), &request);
    while (true) net.test(request, std::array<int, 1>().data(), nullptr);
  }
  while (!receive_comm) check(net.accept(listener, &receive_comm));
  Buffer data(64 << 20);
  void* request = nullptr;
  check(net.receive(receive_comm, data.data(), data.size(), &request));
  int done = 0;
  for (int i = 0; i < 20; ++i) check(net.test(request, &done, nullptr));
  EXPECT_THAT(!done);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(outcome(net, request, 10) == kRemoteError);
  close(life[0]);
  close(life[1]);
  EXPECT_TEXT(last_warning(), "from 127.0.0.1:");
  EXPECT_TEXT(last_warning(), "see its log");
  // Later calls fail as well, and closing still works.
  EXPECT_THAT(net.receive(receive_comm, data.data(), data.size(), &request) == kRemoteError);
  check(net.close_receive(receive_comm));
  check(net.close_listener(listener));
}

void lose_receiver(const AnyNet& net) {
  const Connection connection = connect_pair(net);
  Buffer data(64 << 20);
  void* request = nullptr;
  check(net.send(connection.send_comm, data.data(), data.size(), &request));
  check(net.close_receive(connection.receive_comm));
  EXPECT_THAT(outcome(net, request, 10) == kRemoteError);
  EXPECT_TEXT(last_warning(), "to 127.0.0.1:");
  check(net.close_send(connection.send_comm));
}

// A rank that computes for longer than a host may be silent, and does not read meanwhile, is not a dead host.
void late_receiver(const AnyNet& net) {
  const Connection connection = connect_pair(net);
  Buffer out(64 << 20, 3), in(64 << 20);
  void* send_request = nullptr;
  void* receive_request = nullptr;
  check(net.send(connection.send_comm, out.data(), out.size(), &send_request));
  const double end = seconds_now() + 2.5;
  int done = 0;
  while (seconds_now() < end) {
    check(net.test(send_request, &done, nullptr));
    usleep(1000);
  }
  EXPECT_THAT(!done);
  check(net.receive(connection.receive_comm, in.data(), in.size(), &receive_request));
  // One thread drives both ends.
  int received = 0;
  while (!received || !done) {
    EXPECT_THAT(seconds_now() < end + 20);
    if (!done) check(net.test(send_request, &done, nullptr));
    if (!received) check(net.test(receive_request, &received, nullptr));
  }
  EXPECT_THAT(in == out);
  close_pair(net, connection);
}

// The peer is done and closes: what it sent before arrives all the same.
void close_after_send(const AnyNet& net) {
  const Connection connection = connect_pair(net);
  Buffer out(100000, 7), in(100000);
  void* send_request = nullptr;
  void* receive_request = nullptr;
  check(net.send(connection.send_comm, out.data(), out.size(), &send_request));
  check(net.receive(connection.receive_comm, in.data(), in.size(), &receive_request));
  EXPECT_THAT(outcome(net, send_request, 10) == kSuccess);
  check(net.close_send(connection.send_comm));
  EXPECT_THAT(outcome(net, receive_request, 10) == kSuccess);
  EXPECT_THAT(in == out);
  check(net.receive(connection.receive_comm, in.data(), in.size(), &receive_request));
  EXPECT_THAT(outcome(net, receive_request, 10) == kRemoteError);
  check(net.close_receive(connection.receive_comm));
}

void message_too_long(const AnyNet& net) {
  const Connection connection = connect_pair(net);
  Buffer out(100), in(100);
  void* send_request = nullptr;
  void* receive_request = nullptr;
  check(net.send(connection.send_comm, out.data(), out.size(), &send_request));
  check(net.receive(connection.receive_comm, in.data(), 99, &receive_request));
  EXPECT_THAT(outcome(net, receive_request, 10) == kInvalidUsage);
  EXPECT_TEXT(last_warning(), "sent 100 bytes where NCCL expected at most 99");
  close_pair(net, connection);
}

UniqueFd socket_to(const Handle& handle) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(handle.address.port);
  std::memcpy(&to.sin_addr, handle.address.host, 4);
  EXPECT_THAT(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return fd;
}

}  // namespace

void test_lost_peers(const std::string& library) {
  setenv("CCORE_NCCL_STREAMS", "2", 1);
  setenv("CCORE_TCP_USER_TIMEOUT_MS", "1000", 1);
  const AnyNet net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  late_receiver(net);
  lose_sender(net);
  lose_receiver(net);
  close_after_send(net);
  message_too_long(net);
  check(net.finalize());
  unsetenv("CCORE_NCCL_STREAMS");
  unsetenv("CCORE_TCP_USER_TIMEOUT_MS");
}

namespace {

// Both ends in one thread, as NCCL's proxy thread drives them.
Connection meet(const AnyNet& net, void* listener, void* handle, double seconds) {
  Connection made;
  const double end = seconds_now() + seconds;
  while (!made.send_comm || !made.receive_comm) {
    EXPECT_THAT(seconds_now() < end);
    if (!made.send_comm) check(net.connect(0, handle, &made.send_comm));
    if (!made.receive_comm) check(net.accept(listener, &made.receive_comm));
  }
  return made;
}

// Silent connections from other processes, each with its own limit of descriptors.
class Crowd {
 public:
  Crowd(int processes, int each, const std::vector<Handle>& handles) {
    int ready[2];
    EXPECT_THAT(pipe2(ready, O_CLOEXEC) == 0);
    for (int i = 0; i < processes; ++i) {
      const pid_t pid = fork();
      EXPECT_THAT(pid >= 0);
      if (pid == 0) be_silent(each, handles, ready[1]);
      pids_.push_back(pid);
    }
    close(ready[1]);
    char byte = 0;
    for (int i = 0; i < processes; ++i) EXPECT_THAT(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
  }
  ~Crowd() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  [[noreturn]] static void be_silent(int count, const std::vector<Handle>& handles, int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(count) + 200);
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < count; ++i) {
      const Handle& handle = handles[static_cast<size_t>(i) % handles.size()];
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(handle.address.port);
      std::memcpy(&to.sin_addr, handle.address.host, 4);
      const bool begun = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS;
      if (fd < 0 || !begun) _exit(1);
    }
    if (write(ready, "", 1) != 1) _exit(1);
    while (true) pause();
  }

  std::vector<pid_t> pids_;
};

// Of 10,000 silent connections, 64 held each peer up for ten seconds, and 900 kept it out.
void ten_thousand_strangers(const AnyNet& net) {
  alignas(8) char bytes[kHandleBytes];
  void* listener = nullptr;
  check(net.listen(0, bytes, &listener));
  Handle handle;
  std::memcpy(&handle, bytes, sizeof handle);
  const Crowd crowd(4, 2500, {handle});
  close_pair(net, meet(net, listener, bytes, 30));
  check(net.close_listener(listener));
}

// More silent connections than this process may have descriptors, over many listeners: no call fails.
void strangers_at_many_listeners(const AnyNet& net) {
  constexpr size_t kListeners = 16;
  rlimit before{};
  EXPECT_THAT(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 256;
  std::vector<std::array<char, kHandleBytes>> bytes(kListeners);
  std::vector<void*> listeners(kListeners);
  std::vector<Handle> handles(kListeners);
  for (size_t i = 0; i < kListeners; ++i) {
    check(net.listen(0, bytes[i].data(), &listeners[i]));
    std::memcpy(&handles[i], bytes[i].data(), sizeof(Handle));
  }
  const Crowd crowd(2, 1000, handles);
  EXPECT_THAT(setrlimit(RLIMIT_NOFILE, &few) == 0);
  try {
    const double end = seconds_now() + 2;
    while (seconds_now() < end) {
      for (void* listener : listeners) {
        void* comm = nullptr;
        check(net.accept(listener, &comm));
        EXPECT_THAT(!comm);
      }
    }
    for (size_t i = 0; i < kListeners; ++i) close_pair(net, meet(net, listeners[i], bytes[i].data(), 30));
  } catch (...) {
    setrlimit(RLIMIT_NOFILE, &before);
    throw;
  }
  EXPECT_THAT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (void* listener : listeners) check(net.close_listener(listener));
}

}  // namespace

void test_strangers(const std::string& library) {
  setenv("CCORE_NCCL_STREAMS", "1", 1);
  setenv("CCORE_INIT_TIMEOUT_S", "2", 1);
  AnyNet net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  alignas(8) char bytes[kHandleBytes];
  void* listener = nullptr;
  check(net.listen(0, bytes, &listener));
  Handle handle;
  std::memcpy(&handle, bytes, sizeof handle);
  std::vector<UniqueFd> strangers;
  strangers.push_back(socket_to(handle));  // sends nothing
  strangers.push_back(socket_to(handle));
  EXPECT_THAT(write(strangers.back().get(), "GET / HTTP/1.1\r\nHost: a-host-name-of-some-length\r\n\r\n", 50) == 50);
  close_pair(net, meet(net, listener, bytes, 30));

  // Another secret.
  Handle wrong = handle;
  wrong.secret[31] = static_cast<unsigned char>(wrong.secret[31] ^ 1);
  void* receive_comm = nullptr;
  void* send_comm = nullptr;
  Result result = kSuccess;
  const double end = seconds_now() + 30;
  while (result == kSuccess) {
    EXPECT_THAT(seconds_now() < end && !send_comm && !receive_comm);
    check(net.accept(listener, &receive_comm));
    result = net.connect(0, &wrong, &send_comm);
  }
  EXPECT_THAT(result == kRemoteError);
  EXPECT_TEXT(last_warning(), "wrong job secret?");

  // One socket of two: the peer's host lost the other one.
  Hello hello;
  hello.purpose = Purpose::nccl;
  hello.stream = 1;
  strangers.push_back(socket_to(handle));
  Introduction introduction(strangers.back().get(), handle.secret, hello, "the listener");
  result = kSuccess;
  bool known = false;
  while (result == kSuccess) {
    EXPECT_THAT(seconds_now() < end);
    result = net.accept(listener, &receive_comm);
    if (!known) known = introduction.advance().has_value();
  }
  EXPECT_THAT(known && result == kRemoteError);
  EXPECT_TEXT(last_warning(), "only 1 of the 2 sockets");
  check(net.close_listener(listener));
  check(net.finalize());

  setenv("CCORE_INIT_TIMEOUT_S", "30", 1);
  net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  ten_thousand_strangers(net);
  strangers_at_many_listeners(net);
  check(net.finalize());
  unsetenv("CCORE_NCCL_STREAMS");
  unsetenv("CCORE_INIT_TIMEOUT_S");
}

void test_wrong_handles(const std::string& library) {
  const AnyNet net = load_net(library, kNewestNet);
  check(net.init(keep_warning));
  alignas(8) char handle[kHandleBytes];
  void* comm = nullptr;
  std::memset(handle, 2, sizeof handle);
  EXPECT_THAT(net.connect(0, handle, &comm) == kInvalidUsage);
  EXPECT_TEXT(last_warning(), "set the same NCCL_NET_PLUGIN");
  EXPECT_THAT(net.connect(5, handle, &comm) == kInvalidArgument);
  // The peer's process has ended and no longer listens.
  void* listener = nullptr;
  check(net.listen(0, handle, &listener));
  check(net.close_listener(listener));
  Result result = kSuccess;
  const double end = seconds_now() + 10;
  while (result == kSuccess) {
    EXPECT_THAT(seconds_now() < end);
    result = net.connect(0, handle, &comm);
  }
  EXPECT_THAT(result == kRemoteError || result == kSystemError);
  EXPECT_TEXT(last_warning(), "connect to 127.0.0.1:");
  check(net.finalize());
  setenv("NCCL_SOCKET_IFNAME", "=nosuch0", 1);
  EXPECT_THAT(net.init(keep_warning) == kInvalidUsage);
  EXPECT_TEXT(last_warning(), "NCCL_SOCKET_IFNAME==nosuch0 fits no running interface; this host has: lo 127.0.0.1");
  setenv("CCORE_NCCL_STREAMS", "many", 1);
  EXPECT_THAT(net.init(keep_warning) == kInvalidUsage);
  EXPECT_TEXT(last_warning(), "CCORE_NCCL_STREAMS=many: expected a whole number");
  unsetenv("CCORE_NCCL_STREAMS");
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
}

}  // namespace ccore::nccl
