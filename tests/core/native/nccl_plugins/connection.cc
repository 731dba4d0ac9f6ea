#include "connection.h"

#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ccore::nccl {
namespace {

std::mutex g_mutex;
char g_warning[1024];

}  // namespace

double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void keep_warning(LogLevel level, unsigned long /*subsystems*/, const char* /*file*/, int /*line*/, const char* pattern,
                  ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  if (std::getenv("SHOW_LOG")) std::fprintf(stderr, "%s\n", text);
  if (level != kLogWarn) return;
  // A slow log: the cause must be in it before a call fails.
  usleep(20000);
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::memcpy(g_warning, text, sizeof text);
}

const char* last_warning() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  static char copy[1024];
  std::memcpy(copy, g_warning, sizeof copy);
  return copy;
}

Connection connect_pair(const AnyNet& net, int device, double seconds) {
  alignas(8) char handle[kHandleBytes];
  void* listener = nullptr;
  Connection made;
  const double end = seconds_now() + seconds;
  auto check = [&](Result result) {
    if (result != kSuccess) throw std::runtime_error(std::string("connect: ") + last_warning());
    if (seconds_now() > end) throw std::runtime_error("connect: timeout");
  };
  check(net.listen(device, handle, &listener));
  while (!made.send_comm || !made.receive_comm) {
    if (!made.send_comm) check(net.connect(device, handle, &made.send_comm));
    if (!made.receive_comm) check(net.accept(listener, &made.receive_comm));
  }
  check(net.close_listener(listener));
  return made;
}

void close_pair(const AnyNet& net, const Connection& connection) {
  net.close_send(connection.send_comm);
  net.close_receive(connection.receive_comm);
}

}  // namespace ccore::nccl
