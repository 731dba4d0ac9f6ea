#include "kernels/reduce_kernels.cuh"

namespace ccore_cuda {

const ReduceKernels kBfloat16Kernels = kernels_of<__nv_bfloat16, true>();

}  // namespace ccore_cuda
