// Starts a kernel. Unlike <<<>>> with cudaGetLastError, it does not report errors that the application left behind.
#pragma once

#include "error.h"
#include "kernels/arguments.h"

namespace ccore_cuda {

template <typename Arguments>
void launch(void (*kernel)(const Arguments, const Peers), int blocks, int threads, const Arguments& arguments,
            const Peers& peers, cudaStream_t stream) {
  void* parameters[] = {const_cast<Arguments*>(&arguments), const_cast<Peers*>(&peers)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                         dim3(static_cast<unsigned>(threads)), parameters, 0, stream),
        "starting a kernel");
}

}  // namespace ccore_cuda
