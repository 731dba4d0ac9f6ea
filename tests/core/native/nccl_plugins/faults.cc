// What goes wrong: peers that die, strangers at the port, handles of another net, sizes that differ.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// A rank that computes for longer than a host may be silent, and does not read meanwhile, is no dead host.
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

void test_strangers(const std::string& library) {
  setenv("CCORE_NCCL_STREAMS", "1", 1);
  setenv("CCORE_INIT_TIMEOUT_S", "2", 1);
  const AnyNet net = load_net(library, kNewestNet);
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
  Hello hello{kMagic, handle.token, 1, 0, 0};
  hello.token[15] = static_cast<unsigned char>(hello.token[15] ^ 1);
  strangers.push_back(socket_to(handle));
  EXPECT_THAT(write(strangers.back().get(), &hello, sizeof hello) == sizeof hello);
  void* send_comm = nullptr;
  void* receive_comm = nullptr;
  const double end = seconds_now() + 30;
  while (!send_comm || !receive_comm) {
    EXPECT_THAT(seconds_now() < end);
    if (!send_comm) check(net.connect(0, bytes, &send_comm));
    if (!receive_comm) check(net.accept(listener, &receive_comm));
  }
  char byte = 0;
  EXPECT_THAT(read(strangers[2].get(), &byte, 1) == 0);  // it was closed
  close_pair(net, Connection{send_comm, receive_comm});

  // One socket of two: the peer's host lost the other one.
  hello = Hello{kMagic, handle.token, 2, 1, 0};
  strangers.push_back(socket_to(handle));
  EXPECT_THAT(write(strangers.back().get(), &hello, sizeof hello) == sizeof hello);
  Result result = kSuccess;
  while (result == kSuccess) {
    EXPECT_THAT(seconds_now() < end);
    result = net.accept(listener, &receive_comm);
  }
  EXPECT_THAT(result == kRemoteError);
  EXPECT_TEXT(last_warning(), "only 1 of the 2 sockets");
  check(net.close_listener(listener));
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
