#include <cstdio>

#include "bench.h"

namespace cuda_perf {

Setup::Setup(Rank& of, const Options& options, size_t bytes) : rank(of) {
  check_cuda(cudaSetDevice(0), "cudaSetDevice");
  comm = rank.make_comm(0, options.timeout_ms);
  cc_cuda_options cuda{};
  cuda.size = sizeof cuda;
  cuda.first_epoch = options.first_epoch;
  handle = rank.make_handle(comm, cuda);
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&input), bytes + 256), "allocating");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&output), bytes + 256), "allocating");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&wrong_count), sizeof *wrong_count), "allocating");
  check_cuda(cudaMemset(wrong_count, 0, sizeof *wrong_count), "clearing");
  check_cuda(cudaDeviceSynchronize(), "clearing");
  // Ranks that are threads: the calls above wait for all kernels of the process, and a kernel may wait for this rank.
  rank.barrier();
  if (rank.rank == 0) {
    char text[512];
    require(cc_cuda_describe(handle, text, sizeof text), "cc_cuda_describe");
    std::printf("# %s\n", text);
    std::fflush(stdout);
  }
}

Setup::~Setup() {
  cudaStreamSynchronize(stream);
  cc_cuda_destroy(handle);
  cc_comm_destroy(comm);
  cudaFree(input);
  cudaFree(output);
  cudaFree(wrong_count);
  cudaStreamDestroy(stream);
}

unsigned long long Setup::wrong() {
  unsigned long long count = 0;
  check_cuda(cudaMemcpyAsync(&count, wrong_count, sizeof count, cudaMemcpyDeviceToHost, stream), "reading");
  check_cuda(cudaMemsetAsync(wrong_count, 0, sizeof count, stream), "clearing");
  check_cuda(cudaStreamSynchronize(stream), "waiting");
  return count;
}

}  // namespace cuda_perf
