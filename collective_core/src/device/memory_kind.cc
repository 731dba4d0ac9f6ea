#include "device/memory_kind.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "common/error.h"

namespace ccore {
namespace {

// Of cuda.h, which this library is built without.
using PointerGetAttribute = int (*)(void* value, int attribute, uintptr_t address);
constexpr int kMemoryType = 2;      // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kIsManaged = 8;       // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kOnDevice = 2;   // CU_MEMORYTYPE_DEVICE

std::atomic<PointerGetAttribute> known{nullptr};

cc_memory kind_of(PointerGetAttribute ask, const void* address) {
  unsigned type = 0;
  const auto number = reinterpret_cast<uintptr_t>(address);
  // An error means memory that the driver has never heard of.
  if (ask(&type, kMemoryType, number) != 0) return CC_MEMORY_HOST;
  if (type == kOnDevice) return CC_MEMORY_DEVICE;
  unsigned managed = 0;
  return ask(&managed, kIsManaged, number) == 0 && managed != 0 ? CC_MEMORY_DEVICE : CC_MEMORY_HOST;
}

const char* name_of(cc_memory memory) { return memory == CC_MEMORY_DEVICE ? "device" : "host"; }

}  // namespace

void look_for_driver() {
  if (known.load(std::memory_order_acquire)) return;
  // The handle keeps the driver loaded, as its own state in this process does anyway.
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  known.store(reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute")), std::memory_order_release);
}

cc_memory memory_of(const void* send, const void* recv, const cc_op_options& options) {
  if (options.memory != CC_MEMORY_AUTO) return static_cast<cc_memory>(options.memory);
  if (options.stream) look_for_driver();
  const PointerGetAttribute ask = known.load(std::memory_order_acquire);
  if (!ask) return CC_MEMORY_HOST;
  if (!send || !recv || send == recv) return send || recv ? kind_of(ask, send ? send : recv) : CC_MEMORY_HOST;
  const cc_memory from = kind_of(ask, send), to = kind_of(ask, recv);
  if (from != to) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, format("send is %s memory and recv is %s memory; expected both of one kind",
                                                  name_of(from), name_of(to)));
  }
  return from;
}

}  // namespace ccore
