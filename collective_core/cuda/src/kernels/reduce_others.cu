#include "kernels/reduce_kernels.cuh"

namespace ccore_cuda {

const ReduceKernels kFloat64Kernels = kernels_of<double, false>();
const ReduceKernels kInt8Kernels = kernels_of<int8_t, false>();
const ReduceKernels kUint8Kernels = kernels_of<uint8_t, false>();
const ReduceKernels kInt32Kernels = kernels_of<int32_t, false>();
const ReduceKernels kUint32Kernels = kernels_of<uint32_t, false>();
const ReduceKernels kInt64Kernels = kernels_of<int64_t, false>();
const ReduceKernels kUint64Kernels = kernels_of<uint64_t, false>();

}  // namespace ccore_cuda
