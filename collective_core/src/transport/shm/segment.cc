#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/error.h"
#include "common/pages.h"
#include "common/sha256.h"
#include "transport/shm/arena.h"
#include "transport/shm/shared_memory.h"

namespace ccore {
namespace {

struct Header {
  std::array<unsigned char, 32> nonce;
};

constexpr size_t kDoorbellsAt = 64;
size_t controls_at(int nlocal) { return kDoorbellsAt + static_cast<size_t>(nlocal) * sizeof(Doorbell); }
size_t base_size(int nlocal) {
  const auto n = static_cast<size_t>(nlocal);
  return whole_pages(controls_at(nlocal) + n * n * sizeof(RingControl));
}

size_t arena_size(const SegmentName& name) {
  return name.slot_bytes == 0 ? 0 : whole_pages(Arena::bytes_for(name.nlocal, name.slot_bytes));
}

}  // namespace

static_assert(sizeof(Doorbell) == 64 && sizeof(RingControl) == 128, "layout shared by processes");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics in shared memory must be lock-free");

Segment::Segment(UniqueFd fd, const SegmentName& name)
    : fd_(std::move(fd)), name_(name), base_bytes_(base_size(name.nlocal)) {
  void* base = mmap(nullptr, base_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) throw_errno("mmap of the shared segment");
  base_ = static_cast<std::byte*>(base);
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      name_(other.name_),
      base_(std::exchange(other.base_, nullptr)),
      base_bytes_(other.base_bytes_),
      arena_(std::exchange(other.arena_, nullptr)) {}

Segment::~Segment() {
  if (base_) munmap(base_, base_bytes_);
  if (arena_) munmap(arena_, arena_size(name_));
}

Segment Segment::create(int nlocal, size_t ring_bytes, size_t slot_bytes) {
  SegmentName name{};
  name.nlocal = nlocal;
  name.ring_bytes = whole_pages(ring_bytes);
  name.slot_bytes = slot_bytes == 0 ? 0 : whole_pages(std::max(slot_bytes, Arena::least_slot_bytes(nlocal)));
  name.pid = getpid();
  random_bytes(name.nonce.data(), name.nonce.size());
  UniqueFd fd = make_memory_file("collective_core");
  name.fd = fd.get();
  const auto n = static_cast<size_t>(nlocal);
  // Pages come into being when they are touched, so unused rings cost nothing.
  const size_t size = base_size(nlocal) + arena_size(name) + n * n * name.ring_bytes;
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    throw_errno("ftruncate of the shared segment");
  }
  Segment segment(std::move(fd), name);
  for (int i = 0; i < nlocal; ++i) new (segment.doorbell(i)) Doorbell;
  auto* controls = segment.base_ + controls_at(nlocal);
  for (size_t i = 0; i < n * n; ++i) new (controls + i * sizeof(RingControl)) RingControl;
  std::memcpy(segment.base_, name.nonce.data(), name.nonce.size());
  segment.map_arena();
  return segment;
}

Segment Segment::open(const SegmentName& name) {
  const std::string path = format("/proc/%lld/fd/%d", static_cast<long long>(name.pid), static_cast<int>(name.fd));
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw_errno("open " + path);
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < static_cast<off_t>(base_size(name.nlocal))) {
    throw Error(CC_ERROR_SYSTEM, path + " is not the expected segment (another process namespace?)");
  }
  Segment segment(std::move(fd), name);
  Header header{};
  std::memcpy(&header, segment.base_, sizeof header);
  if (header.nonce != name.nonce) {
    throw Error(CC_ERROR_SYSTEM, path + " is another segment (another process namespace?)");
  }
  segment.map_arena();
  return segment;
}

void Segment::map_arena() {
  if (name_.slot_bytes == 0) return;
  void* arena =
      mmap(nullptr, arena_size(name_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), static_cast<off_t>(base_bytes_));
  if (arena == MAP_FAILED) throw_errno("mmap of the shared arena");
  arena_ = static_cast<std::byte*>(arena);
}

SegmentName Segment::name() const { return name_; }

Doorbell* Segment::doorbell(int local_rank) const {
  return reinterpret_cast<Doorbell*>(base_ + kDoorbellsAt) + local_rank;
}

size_t Segment::ring_index(int from, int to) const {
  return static_cast<size_t>(from) * static_cast<size_t>(name_.nlocal) + static_cast<size_t>(to);
}

Ring Segment::map_ring(int from, int to) const {
  const size_t index = ring_index(from, to);
  const size_t size = name_.ring_bytes;
  const auto offset = static_cast<off_t>(base_bytes_ + arena_size(name_) + index * size);
  void* area = mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) throw_errno("mmap of a ring");
  auto* data = static_cast<std::byte*>(area);
  for (std::byte* at : {data, data + size}) {
    if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(), offset) == MAP_FAILED) {
      const int error = errno;
      munmap(area, 2 * size);
      throw Error(CC_ERROR_SYSTEM, "mmap of a ring: " + errno_text(error));
    }
  }
  auto* control = reinterpret_cast<RingControl*>(base_ + controls_at(name_.nlocal)) + index;
  return Ring{control, data, size};
}

void Segment::unmap_ring(const Ring& ring) {
  if (ring.data) munmap(ring.data, 2 * ring.size);
}

}  // namespace ccore
