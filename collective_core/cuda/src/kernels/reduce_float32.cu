#include "kernels/reduce_kernels.cuh"

namespace ccore_cuda {

const ReduceKernels kFloat32Kernels = kernels_of<float, true>();

}  // namespace ccore_cuda
