// What this library asks of the driver about memory of cuMemCreate. A class, so that what uses it also runs without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccore_cuda {

using PhysicalMemory = unsigned long long;  // a CUmemGenericAllocationHandle

struct AddressRange {
  uintptr_t base;
  size_t bytes;
};

struct Piece {
  PhysicalMemory memory;
  size_t bytes;
};

// Calls return false, -1 or 0 if the driver refuses.
class VirtualMemory {
 public:
  virtual ~VirtualMemory() = default;

  // The memory that is mapped at an address, with a reference that release() gives back.
  virtual bool retain(uintptr_t address, PhysicalMemory* memory) = 0;
  virtual void release(PhysicalMemory memory) = 0;
  // The mapping of an address or the reserved range around it: which of them is not documented. Saves calls.
  virtual bool range_of(uintptr_t address, AddressRange* range) = 0;
  // Mappings begin and end at its multiples.
  virtual size_t granularity() const = 0;

  // Whether it was made to be exported as a file descriptor.
  virtual bool has_descriptors(PhysicalMemory memory) = 0;
  // A file descriptor, which the caller closes, or -1.
  virtual int export_descriptor(PhysicalMemory memory) = 0;
  // With a reference that release() gives back. The descriptor stays the caller's.
  virtual bool import_descriptor(int descriptor, PhysicalMemory* memory) = 0;

  // Maps the pieces one after the other, for this process's device to read and write. 0 if it cannot.
  virtual uintptr_t map(const std::vector<Piece>& pieces) = 0;
  virtual void unmap(uintptr_t address, size_t bytes) = 0;
};

}  // namespace ccore_cuda
