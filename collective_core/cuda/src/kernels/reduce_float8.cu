#include "kernels/reduce_kernels.cuh"

namespace ccore_cuda {

const ReduceKernels kFloat8E4M3Kernels = kernels_of<Eight<ccore::E4M3>, false>();
const ReduceKernels kFloat8E5M2Kernels = kernels_of<Eight<ccore::E5M2>, false>();

}  // namespace ccore_cuda
