// Memory as the kernels see it: only accesses that PTX defines between devices and processes.
#pragma once

#include "protocol/flags.h"
#include "protocol/layout.h"

namespace ccore_cuda {

struct DeviceMemory {
  // Each half is one access of 8 bytes; the two need not be seen together.
  static __device__ __forceinline__ void store(Packet* to, const Packet& value) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.low), "l"(value.high) : "memory");
  }
  static __device__ __forceinline__ Packet load(const Packet* from) {
    Packet value;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.low), "=l"(value.high)
                 : "l"(from)
                 : "memory");
    return value;
  }
  static __device__ __forceinline__ void store_release(uint32_t* to, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  static __device__ __forceinline__ uint32_t load_acquire(const uint32_t* from) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  static __device__ __forceinline__ uint32_t load(const uint32_t* from) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  static __device__ __forceinline__ uint64_t load(const uint64_t* from) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
  }
  static __device__ __forceinline__ void store(uint32_t* to, uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  static __device__ __forceinline__ void store(uint64_t* to, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  }
  // Before a relaxed store of the same thread, a release of all that happened before.
  static __device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
};

}  // namespace ccore_cuda
