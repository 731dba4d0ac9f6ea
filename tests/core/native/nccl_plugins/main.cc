// Plays NCCL's part against libnccl-net-ccore.so, without a GPU: ccore_nccl_tests LIBRARY [CASE].
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "cases.h"
#include "connection.h"
#include "expect_plugin.h"

using namespace ccore::nccl;

namespace {

struct Case {
  const char* name;
  void (*run)(const std::string& library);
};

constexpr Case kCases[] = {
    {"versions", test_versions},     {"messages", test_messages},   {"short-calls", test_short_calls},
    {"lost-peers", test_lost_peers}, {"strangers", test_strangers}, {"wrong-handles", test_wrong_handles},
    {"interfaces", test_interfaces}, {"tuner", test_tuner},
};

size_t entries_of(const char* directory) {
  DIR* open = opendir(directory);
  size_t count = 0;
  while (open && readdir(open)) ++count;
  if (open) closedir(open);
  return count;
}

// What a case must not leave behind.
void expect_nothing_left(size_t files, size_t threads) {
  // The kernel removes a thread a moment after it was joined; on a loaded machine that may be seconds.
  const double end = seconds_now() + 20;
  while (seconds_now() < end && (entries_of("/proc/self/fd") > files || entries_of("/proc/self/task") > threads)) {
    usleep(1000);
  }
  EXPECT_THAT(entries_of("/proc/self/fd") <= files);
  EXPECT_THAT(entries_of("/proc/self/task") <= threads);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 2 ? argv[2] : "";
  int run = 0;
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  std::thread([] {}).join();  // a sanitizer starts a thread of its own with the first one
  for (const Case& one : kCases) {
    if (argc < 2 || (!wanted.empty() && wanted != one.name)) continue;
    const double begin = seconds_now();
    const size_t files = entries_of("/proc/self/fd");
    const size_t threads = entries_of("/proc/self/task");
    try {
      one.run(argv[1]);
      expect_nothing_left(files, threads);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s failed: %s\nlast warning: %s\n", one.name, error.what(), last_warning());
      return 1;
    }
    std::printf("%s passed in %.2f s\n", one.name, seconds_now() - begin);
    ++run;
  }
  if (run > 0) return 0;
  std::fprintf(stderr, "usage: %s LIBRARY [CASE], with one of these cases:\n", argv[0]);
  for (const Case& one : kCases) std::fprintf(stderr, "  %s\n", one.name);
  return 2;
}
