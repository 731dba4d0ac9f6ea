// Memory of this process that the others of its node can map: what cc_mem_alloc gives. Each piece is an anonymous file
// (memfd) of its own, so that a rank reaches only what was registered with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/unique_fd.h"

namespace ccore {

// An anonymous file (memfd), empty: memory that other processes can map through /proc/PID/fd, and that is on no file
// system. name: as /proc shows it. Throws CC_ERROR_SYSTEM.
UniqueFd make_memory_file(const char* name);

// What another process needs to know to map a range of such memory; travels as bytes.
struct MemoryName {
  int64_t pid = 0;
  int32_t fd = -1;
  int32_t reserved = 0;
  uint64_t offset = 0;  // of the range in the memory, in bytes
  uint64_t bytes = 0;   // of the range; 0: it is not memory that others can map
  std::array<unsigned char, 32> nonce{};
};

// Zeros, at an address that is a multiple of the page size; bytes > 0. Pages come into being when they are touched.
// Throws CC_ERROR_SYSTEM.
void* allocate_shared(size_t bytes);
// Throws CC_ERROR_INVALID_ARGUMENT if it is not the beginning of such memory, CC_ERROR_INVALID_USAGE while it is in use.
void free_shared(void* memory);

// As long as it lives, the memory in which the range lies cannot be freed.
class SharedMemoryUse {
 public:
  // bytes > 0. Names nothing if the range lies in no such memory, which may be freed then at any time.
  SharedMemoryUse(const void* range, size_t bytes);
  SharedMemoryUse(SharedMemoryUse&& other) noexcept;
  SharedMemoryUse& operator=(SharedMemoryUse&&) = delete;
  ~SharedMemoryUse();

  const MemoryName& name() const { return name_; }

 private:
  MemoryName name_;
  const void* memory_ = nullptr;
};

// A range of another process's memory, mapped here until this goes out of scope. The pages live as long as anyone maps
// them, whatever becomes of that process.
class MappedRange {
 public:
  // Throws CC_ERROR_SYSTEM if it cannot be opened or is another one.
  explicit MappedRange(const MemoryName& name);
  MappedRange(MappedRange&& other) noexcept;
  MappedRange& operator=(MappedRange&&) = delete;
  ~MappedRange();

  std::byte* data() const { return static_cast<std::byte*>(map_) + lead_; }
  size_t bytes() const { return bytes_; }

 private:
  void* map_ = nullptr;
  size_t lead_ = 0;  // from the page on which the range begins
  size_t bytes_ = 0;
};

}  // namespace ccore
