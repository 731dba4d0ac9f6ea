#include "driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>

#include "error.h"

namespace ccore_cuda {
namespace {

auto batch_function() {
  using Function = CUresult (*)(CUstream, unsigned int, CUstreamBatchMemOpParams*, unsigned int);
  static const auto found = driver_function<Function>("cuStreamBatchMemOp_v2");
  return found;
}

}  // namespace

void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver ? dlsym(driver, name) : nullptr;
}

std::optional<Allocation> allocation_of(const void* address) {
  using Function = CUresult (*)(unsigned int, CUpointer_attribute*, void**, CUdeviceptr);
  static const auto attributes_of = driver_function<Function>("cuPointerGetAttributes");
  if (!attributes_of) return std::nullopt;
  unsigned int memory_type = 0;
  unsigned long long number = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&memory_type, &number, &base, &bytes};
  const CUresult code = attributes_of(4, names, values, reinterpret_cast<CUdeviceptr>(address));
  if (code != CUDA_SUCCESS || memory_type != CU_MEMORYTYPE_DEVICE || base == 0) return std::nullopt;
  return Allocation{number, static_cast<uintptr_t>(base), bytes};
}

bool is_plain_memory(const void* address) {
  using Function = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto attribute_of = driver_function<Function>("cuPointerGetAttribute");
  // The driver writes an int, although its documentation says "a boolean": in a bool it would overwrite what is beside.
  int is_plain = 0;
  return attribute_of &&
         attribute_of(&is_plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                      reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS &&
         is_plain != 0;
}

bool has_stream_operations() { return batch_function() != nullptr; }

int device_attribute(int device, int attribute) {
  using Function = CUresult (*)(int*, CUdevice_attribute, CUdevice);
  static const auto get = driver_function<Function>("cuDeviceGetAttribute");
  int value = 0;
  // The numbers of devices are the same in the driver and in the runtime.
  if (!get || get(&value, static_cast<CUdevice_attribute>(attribute), device) != CUDA_SUCCESS) return 0;
  return value;
}

void StreamWords::write(uint32_t* word, uint32_t value) {
  CUstreamBatchMemOpParams item{};
  item.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  item.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  item.writeValue.value = value;
  item.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  list_.push_back(item);
}

void StreamWords::write(uint64_t* word, uint64_t value) {
  CUstreamBatchMemOpParams item{};
  item.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  item.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  item.writeValue.value64 = value;
  item.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  list_.push_back(item);
}

void StreamWords::wait(const uint32_t* word, uint32_t value) {
  CUstreamBatchMemOpParams item{};
  item.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  item.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
  item.waitValue.value = value;
  item.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  if (flushes_) item.waitValue.flags |= CU_STREAM_WAIT_VALUE_FLUSH;
  list_.push_back(item);
}

void StreamWords::queue(cudaStream_t stream) {
  std::vector<CUstreamBatchMemOpParams> list;
  list.swap(list_);
  // The driver takes at most 256 operations in one call.
  for (size_t begin = 0; begin < list.size(); begin += 256) {
    const auto some = static_cast<unsigned>(std::min<size_t>(256, list.size() - begin));
    const CUresult code = batch_function()(static_cast<CUstream>(stream), some, list.data() + begin, 0);
    if (code != CUDA_SUCCESS) {
      throw Error(CC_ERROR_SYSTEM, "cuStreamBatchMemOp failed with code " + std::to_string(static_cast<int>(code)));
    }
  }
}

}  // namespace ccore_cuda
