#include "stream_words.h"

#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "error.h"

namespace ccore_cuda {
namespace {

using BatchMemOp = CUresult (*)(CUstream, unsigned int, CUstreamBatchMemOpParams*, unsigned int);

// The driver is not linked: the library must load on machines without one.
BatchMemOp batch_mem_op() {
  static const BatchMemOp found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<BatchMemOp>(driver ? dlsym(driver, "cuStreamBatchMemOp_v2") : nullptr);
  }();
  return found;
}

}  // namespace

void StreamWords::require_support() {
  if (!batch_mem_op()) {
    throw Error(CC_ERROR_SYSTEM, "the driver has no cuStreamBatchMemOp_v2; install a driver of CUDA 11.7 or newer");
  }
}

void StreamWords::queue(cudaStream_t stream) {
  std::vector<CUstreamBatchMemOpParams> params(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    const auto address = reinterpret_cast<CUdeviceptr>(items_[i].word);
    if (items_[i].waits) {
      params[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      params[i].waitValue.address = address;
      params[i].waitValue.value = items_[i].value;
      params[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
      params[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      params[i].writeValue.address = address;
      params[i].writeValue.value = items_[i].value;
      params[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
  }
  items_.clear();
  if (params.empty()) return;
  const CUresult code =
      batch_mem_op()(static_cast<CUstream>(stream), static_cast<unsigned>(params.size()), params.data(), 0);
  if (code != CUDA_SUCCESS) {
    throw Error(CC_ERROR_SYSTEM, "cuStreamBatchMemOp failed with code " + std::to_string(static_cast<int>(code)));
  }
}

}  // namespace ccore_cuda
