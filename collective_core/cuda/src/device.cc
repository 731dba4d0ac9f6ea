#include "device.h"

#include <cuda.h>

#include <cstring>

#include "device_scope.h"
#include "driver.h"

namespace ccore_cuda {

std::array<unsigned char, 16> uuid_of(int device, const cudaDeviceProp& properties) {
  // The first version of the call returns the UUID of the GPU for each of its slices.
  using Function = CUresult (*)(CUuuid*, CUdevice);
  static const auto get = driver_function<Function>("cuDeviceGetUuid_v2");
  CUuuid uuid{};
  if (!get || get(&uuid, device) != CUDA_SUCCESS) std::memcpy(uuid.bytes, properties.uuid.bytes, sizeof uuid.bytes);
  std::array<unsigned char, 16> result{};
  static_assert(sizeof uuid.bytes == sizeof result, "a UUID has 16 bytes");
  std::memcpy(result.data(), uuid.bytes, sizeof result);
  return result;
}

uint64_t bus_of(const cudaDeviceProp& properties) {
  return static_cast<uint64_t>(static_cast<uint32_t>(properties.pciDomainID)) << 16 |
         static_cast<uint64_t>(properties.pciBusID & 0xff) << 8 | static_cast<uint64_t>(properties.pciDeviceID & 0xff);
}

int device_of(cudaStream_t stream) {
  // cuStreamGetDevice() came with CUDA 12.8 only.
  static const auto get = driver_function<CUresult (*)(CUstream, CUcontext*)>("cuStreamGetCtx");
  CUcontext context = nullptr;
  return get && get(stream, &context) == CUDA_SUCCESS ? device_of(context) : -1;
}

bool flushes_waits(int device) { return device_attribute(device, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES) != 0; }

bool orders_remote_writes(int device) {
  return flushes_waits(device) || device_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                                      CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
}

}  // namespace ccore_cuda
