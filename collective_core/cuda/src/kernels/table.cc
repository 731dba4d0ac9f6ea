#include "kernels/arguments.h"

namespace ccore_cuda {

const ReduceKernels* reduce_kernels(cc_dtype dtype) {
  switch (dtype) {
    case CC_FLOAT64:
      return &kFloat64Kernels;
    case CC_FLOAT32:
      return &kFloat32Kernels;
    case CC_FLOAT16:
      return &kFloat16Kernels;
    case CC_BFLOAT16:
      return &kBfloat16Kernels;
    case CC_INT8:
      return &kInt8Kernels;
    case CC_UINT8:
      return &kUint8Kernels;
    case CC_INT32:
      return &kInt32Kernels;
    case CC_UINT32:
      return &kUint32Kernels;
    case CC_INT64:
      return &kInt64Kernels;
    case CC_UINT64:
      return &kUint64Kernels;
    case CC_FLOAT8_E4M3:
      return &kFloat8E4M3Kernels;
    case CC_FLOAT8_E5M2:
      return &kFloat8E5M2Kernels;
    default:
      return nullptr;
  }
}

}  // namespace ccore_cuda
