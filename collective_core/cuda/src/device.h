// What identifies a device and what it can do.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace ccore_cuda {

// Of the GPU, or of the MIG slice.
std::array<unsigned char, 16> uuid_of(int device, const cudaDeviceProp& properties);
// The PCI address, which the slices of a GPU have in common.
uint64_t bus_of(const cudaDeviceProp& properties);

// -1 if the driver cannot tell.
int device_of(cudaStream_t stream);

// Whether a stream that has waited for a word also sees what another GPU wrote before the word, as the driver reports it
// for writes from other devices; flushes_waits: with CU_STREAM_WAIT_VALUE_FLUSH.
bool orders_remote_writes(int device);
bool flushes_waits(int device);

}  // namespace ccore_cuda
