#include "memory/driver_memory.h"

#include <cuda.h>
#include <fcntl.h>

#include "driver.h"

namespace ccore_cuda {
namespace {

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// Calls of the driver of CUDA 11.0 or newer, found at run time.
struct Calls {
  decltype(&cuMemRetainAllocationHandle) retain;
  decltype(&cuMemRelease) release;
  decltype(&cuMemGetAddressRange) range_of;
  decltype(&cuMemGetAllocationGranularity) granularity_of;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties_of;
  decltype(&cuMemExportToShareableHandle) export_to;
  decltype(&cuMemImportFromShareableHandle) import_from;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free_range;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

template <typename Function>
bool find(Function* function, const char* name) {
  *function = driver_function<Function>(name);
  return *function != nullptr;
}

bool find_all(Calls* calls) {
  return find(&calls->retain, "cuMemRetainAllocationHandle") && find(&calls->release, "cuMemRelease") &&
         find(&calls->range_of, "cuMemGetAddressRange_v2") &&
         find(&calls->granularity_of, "cuMemGetAllocationGranularity") &&
         find(&calls->properties_of, "cuMemGetAllocationPropertiesFromHandle") &&
         find(&calls->export_to, "cuMemExportToShareableHandle") &&
         find(&calls->import_from, "cuMemImportFromShareableHandle") && find(&calls->reserve, "cuMemAddressReserve") &&
         find(&calls->free_range, "cuMemAddressFree") && find(&calls->map, "cuMemMap") &&
         find(&calls->unmap, "cuMemUnmap") && find(&calls->set_access, "cuMemSetAccess");
}

class DriverMemory : public VirtualMemory {
 public:
  DriverMemory(const Calls& calls, int device, size_t granularity)
      : calls_(calls), device_(device), granularity_(granularity) {}

  bool retain(uintptr_t address, PhysicalMemory* memory) override {
    return calls_.retain(memory, reinterpret_cast<void*>(address)) == CUDA_SUCCESS;
  }
  void release(PhysicalMemory memory) override { calls_.release(memory); }
  bool range_of(uintptr_t address, AddressRange* range) override {
    CUdeviceptr base = 0;
    if (calls_.range_of(&base, &range->bytes, static_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) return false;
    range->base = static_cast<uintptr_t>(base);
    return true;
  }
  size_t granularity() const override { return granularity_; }

  bool has_descriptors(PhysicalMemory memory) override {
    CUmemAllocationProp properties{};
    return calls_.properties_of(&properties, memory) == CUDA_SUCCESS &&
           (static_cast<unsigned>(properties.requestedHandleTypes) & kHandleType) != 0;
  }
  int export_descriptor(PhysicalMemory memory) override {
    int descriptor = -1;
    if (calls_.export_to(&descriptor, memory, kHandleType, 0) != CUDA_SUCCESS) return -1;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return descriptor;
  }
  bool import_descriptor(int descriptor, PhysicalMemory* memory) override {
    void* const handle = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
    return calls_.import_from(memory, handle, kHandleType) == CUDA_SUCCESS;
  }

  uintptr_t map(const std::vector<Piece>& pieces) override {
    size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.bytes;
    CUdeviceptr base = 0;
    if (calls_.reserve(&base, bytes, granularity_, 0, 0) != CUDA_SUCCESS) return 0;
    size_t mapped = 0;
    for (const Piece& piece : pieces) {
      if (calls_.map(base + mapped, piece.bytes, 0, piece.memory, 0) != CUDA_SUCCESS) break;
      mapped += piece.bytes;
    }
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device_;  // the numbers of devices are the same in the driver and in the runtime
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (mapped == bytes && calls_.set_access(base, bytes, &access, 1) == CUDA_SUCCESS) {
      return static_cast<uintptr_t>(base);
    }
    if (mapped) calls_.unmap(base, mapped);
    calls_.free_range(base, bytes);
    return 0;
  }
  void unmap(uintptr_t address, size_t bytes) override {
    calls_.unmap(static_cast<CUdeviceptr>(address), bytes);
    calls_.free_range(static_cast<CUdeviceptr>(address), bytes);
  }

 private:
  const Calls calls_;
  const int device_;
  const size_t granularity_;
};

}  // namespace

std::unique_ptr<VirtualMemory> make_driver_memory(int device) {
  Calls calls{};
  if (!find_all(&calls)) return nullptr;
  for (const CUdevice_attribute needed : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    if (device_attribute(device, needed) == 0) return nullptr;
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = kHandleType;
  size_t granularity = 0;
  if (calls.granularity_of(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
      granularity == 0) {
    return nullptr;
  }
  return std::make_unique<DriverMemory>(calls, device, granularity);
}

}  // namespace ccore_cuda
