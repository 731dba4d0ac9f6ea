#include "memory/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include "error.h"

namespace ccore_cuda {
namespace {

struct Name {
  int64_t pid;
  int32_t fd;
  uint32_t reserved;
  unsigned char nonce[16];
  char error[160];
};
struct Outcome {
  char error[160];
};

std::string errno_text() { return std::generic_category().message(errno); }

// The nonce is at the end, so that the memory itself begins at a page.
constexpr size_t kNonceBytes = 16;

void* map_file(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

}  // namespace

SharedMapping::SharedMapping(const Meeting& meeting, size_t bytes, const char* what) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (bytes + kNonceBytes + page - 1) / page * page;
  int fd = -1;
  Name name{};
  if (meeting.rank() == 0) {
    fd = memfd_create("collective_core_cuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes_)) != 0 || !(memory_ = map_file(fd, bytes_))) {
      put(name.error, std::string("making ") + what + ": " + errno_text());
    } else if (getrandom(name.nonce, sizeof name.nonce, 0) != sizeof name.nonce) {
      put(name.error, "getrandom: " + errno_text());
    } else {
      std::memcpy(static_cast<char*>(memory_) + bytes_ - kNonceBytes, name.nonce, kNonceBytes);
    }
    name.pid = getpid();
    name.fd = fd;
  }
  const auto names = meeting.exchange(name);
  Outcome outcome{};
  if (names[0].error[0]) {
    std::memcpy(outcome.error, names[0].error, sizeof outcome.error);
  } else if (meeting.rank() != 0) {
    const std::string path = "/proc/" + std::to_string(names[0].pid) + "/fd/" + std::to_string(names[0].fd);
    fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0 || !(memory_ = map_file(fd, bytes_))) {
      put(outcome.error, std::string("opening ") + what + " of rank 0 at " + path + ": " + errno_text());
    } else if (std::memcmp(static_cast<char*>(memory_) + bytes_ - kNonceBytes, names[0].nonce, kNonceBytes) != 0) {
      put(outcome.error, std::string(what) + " at " + path + " is not that of rank 0: other namespaces of processes");
    }
  }
  const auto outcomes = meeting.exchange(outcome);
  if (fd >= 0) close(fd);
  try {
    require_all(outcomes);
  } catch (const Error&) {
    if (memory_) munmap(memory_, bytes_);
    throw;
  }
}

SharedMapping::~SharedMapping() { munmap(memory_, bytes_); }

void wake_all(Board* board) {
  board->news.fetch_add(1, std::memory_order_release);
  futex(&board->news, FUTEX_WAKE, INT_MAX, nullptr);
}

void wait_for_news(Board* board, uint32_t seen, int64_t timeout_ns) {
  const timespec timeout{timeout_ns / 1000000000, timeout_ns % 1000000000};
  futex(&board->news, FUTEX_WAIT, seen, &timeout);
}

}  // namespace ccore_cuda
