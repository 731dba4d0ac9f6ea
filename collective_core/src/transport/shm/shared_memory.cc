#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "common/error.h"
#include "common/pages.h"
#include "common/sha256.h"
#include "common/unique_fd.h"

namespace ccore {
namespace {

// That nothing in it is ever run. Linux has it since 6.3, and up to 6.5 hosts with vm.memfd_noexec=2 make no others.
constexpr unsigned kNoExecSeal = 0x0008U;

// The file begins with a page for the nonce, by which who maps it knows that it is the right one.
struct Allocation {
  UniqueFd fd;
  size_t bytes;  // as asked for
  std::array<unsigned char, 32> nonce;
  int uses = 0;
};

struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, Allocation, std::greater<>> by_address;
};

// Never destroyed: memory may be freed while the process ends.
Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

void write_nonce(int fd, const std::array<unsigned char, 32>& nonce) {
  if (pwrite(fd, nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw_errno("write to the shared memory");
  }
}

}  // namespace

UniqueFd make_memory_file(const char* name) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | kNoExecSeal));
  if (!fd && errno == EINVAL) fd = UniqueFd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) throw_errno("memfd_create");
  return fd;
}

void* allocate_shared(size_t bytes) {
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) - 2 * page_bytes()) {
    throw Error(CC_ERROR_SYSTEM, format("%zu bytes are more than a process can have", bytes));
  }
  Allocation allocation{make_memory_file("collective_core_memory"), bytes, {}};
  if (ftruncate(allocation.fd.get(), static_cast<off_t>(page_bytes() + whole_pages(bytes))) != 0) {
    throw_errno(format("ftruncate of shared memory of %zu bytes", bytes));
  }
  random_bytes(allocation.nonce.data(), allocation.nonce.size());
  write_nonce(allocation.fd.get(), allocation.nonce);
  void* memory = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, allocation.fd.get(),
                      static_cast<off_t>(page_bytes()));
  if (memory == MAP_FAILED) throw_errno(format("mmap of shared memory of %zu bytes", bytes));
  const std::lock_guard<std::mutex> lock(allocations().mutex);
  allocations().by_address.emplace(static_cast<const std::byte*>(memory), std::move(allocation));
  return memory;
}

void free_shared(void* memory) {
  const std::lock_guard<std::mutex> lock(allocations().mutex);
  auto& all = allocations().by_address;
  const auto found = all.find(static_cast<const std::byte*>(memory));
  if (found == all.end()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "this address is not one that cc_mem_alloc gave, or was freed already");
  }
  if (found->second.uses > 0) {
    throw Error(CC_ERROR_INVALID_USAGE,
                format("the memory is still registered (%d times): call cc_mem_deregister first, or destroy the "
                       "communicator",
                       found->second.uses));
  }
  munmap(memory, whole_pages(found->second.bytes));
  all.erase(found);
}

SharedMemoryUse::SharedMemoryUse(const void* range, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(range);
  const std::lock_guard<std::mutex> lock(allocations().mutex);
  auto& all = allocations().by_address;
  const auto found = all.lower_bound(begin);  // the last one that does not begin behind the range
  if (found == all.end()) return;
  const auto offset = static_cast<size_t>(begin - found->first);
  Allocation& allocation = found->second;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return;
  ++allocation.uses;
  memory_ = found->first;
  name_.pid = getpid();
  name_.fd = allocation.fd.get();
  name_.offset = offset;
  name_.bytes = bytes;
  name_.nonce = allocation.nonce;
}

SharedMemoryUse::SharedMemoryUse(SharedMemoryUse&& other) noexcept
    : name_(other.name_), memory_(std::exchange(other.memory_, nullptr)) {}

SharedMemoryUse::~SharedMemoryUse() {
  if (!memory_) return;
  const std::lock_guard<std::mutex> lock(allocations().mutex);
  --allocations().by_address.at(static_cast<const std::byte*>(memory_)).uses;
}

MappedRange::MappedRange(const MemoryName& name) {
  const std::string path = format("/proc/%lld/fd/%d", static_cast<long long>(name.pid), static_cast<int>(name.fd));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw_errno("open " + path);
  std::array<unsigned char, 32> nonce{};
  const bool read = pread(fd.get(), nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size());
  const size_t page = page_bytes();
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (!read || nonce != name.nonce || size < 0 || static_cast<uint64_t>(size) < page + name.offset + name.bytes) {
    throw Error(CC_ERROR_SYSTEM, path + " is other memory (another process namespace?)");
  }
  const size_t begin = name.offset / page * page;
  const size_t lead = name.offset - begin;
  void* map =
      mmap(nullptr, lead + name.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), static_cast<off_t>(page + begin));
  if (map == MAP_FAILED) throw_errno("mmap of " + path);
  map_ = map;
  lead_ = lead;
  bytes_ = name.bytes;
}

MappedRange::MappedRange(MappedRange&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)), lead_(other.lead_), bytes_(other.bytes_) {}

MappedRange::~MappedRange() {
  if (map_) munmap(map_, lead_ + bytes_);
}

}  // namespace ccore
