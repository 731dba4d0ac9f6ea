#include "host/cpu_fold.h"

#include <sched.h>

#include <string>

#include "clock.h"
#include "error.h"
#include "short_float.h"

namespace ccore_cuda {
namespace {

// Smaller copies to the device wait for the process' time slice; two rows go by a copy engine.
constexpr size_t kLeastPlainCopyBytes = size_t{32} << 10;

void copy_to_device(char* to, const char* from, size_t bytes, cudaStream_t stream) {
  const size_t row = bytes < kLeastPlainCopyBytes ? bytes / 2 : 0, rest = bytes - 2 * row;
  if (row > 0) {
    check(cudaMemcpy2DAsync(to, row, from, row, row, 2, cudaMemcpyHostToDevice, stream), "copying to the GPU");
  }
  if (rest > 0) {
    check(cudaMemcpyAsync(to + 2 * row, from + 2 * row, rest, cudaMemcpyHostToDevice, stream), "copying to the GPU");
  }
}

}  // namespace

CpuFold::CpuFold(const Meeting& meeting, size_t most_bytes, int64_t timeout_ms)
    : meeting_(meeting), most_bytes_(most_bytes), timeout_ns_(timeout_ms * 1000000) {}

CpuFold::~CpuFold() {
  if (arrived_) cudaEventDestroy(arrived_);
  if (!memory_) return;
  cudaHostUnregister(memory_);
  cc_mem_free(memory_);
}

bool CpuFold::takes(size_t count, cc_dtype dtype, cc_redop op) const {
  // The CPUs round the sum of each two ranks to the type; kernels add all ranks in fp32, and round once.
  const bool rounds_partial_sums = is_short_float(dtype) && op != CC_MIN && op != CC_MAX && meeting_.size() > 2;
  return count > 0 && count * cc_dtype_size(dtype) <= most_bytes_ && !rounds_partial_sums;
}

void CpuFold::make_memory() {
  meeting_.all_or_none([&] {
    if (cc_mem_alloc(&memory_, most_bytes_) != CC_SUCCESS) throw Error(CC_ERROR_SYSTEM, cc_last_error(nullptr));
    const cudaError_t pinned = cudaHostRegister(memory_, most_bytes_, cudaHostRegisterDefault);
    cudaGetLastError();  // the program need not see it
    check(pinned, "pinning host memory");
    check(cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming), "making an event");
  });
  cc_mem_handle handle = 0;
  int direct = 0;
  // Without it the communicator copies, and is still right.
  if (cc_mem_register(meeting_.comm(), memory_, most_bytes_, &handle, &direct, nullptr) != CC_SUCCESS) {
    throw Error(CC_ERROR_SYSTEM, cc_last_error(nullptr));
  }
}

void CpuFold::all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream) {
  if (!memory_) make_memory();
  const size_t bytes = count * cc_dtype_size(dtype);
  check(cudaMemcpyAsync(memory_, send, bytes, cudaMemcpyDeviceToHost, stream), "copying to the host");
  check(cudaEventRecord(arrived_, stream), "recording an event");
  await_input();
  if (const cc_result result = cc_all_reduce(memory_, memory_, count, dtype, op, meeting_.comm(), nullptr)) {
    throw Error(result, cc_last_error(nullptr));
  }
  copy_to_device(static_cast<char*>(recv), static_cast<const char*>(memory_), bytes, stream);
}

void CpuFold::await_input() const {
  const int64_t begin = now_ns();
  while (true) {
    const cudaError_t code = cudaEventQuery(arrived_);
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) check(code, "copying to the host");
    if (now_ns() - begin > timeout_ns_) {
      throw Error(CC_ERROR_TIMEOUT, "the GPU of rank " + std::to_string(meeting_.rank()) +
                                        " did not finish the work that was queued before the operation");
    }
    sched_yield();
  }
}

}  // namespace ccore_cuda
