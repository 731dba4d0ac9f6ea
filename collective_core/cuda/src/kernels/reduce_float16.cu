#include "kernels/reduce_kernels.cuh"

namespace ccore_cuda {

const ReduceKernels kFloat16Kernels = kernels_of<__half, true>();

}  // namespace ccore_cuda
