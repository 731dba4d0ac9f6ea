#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "bench.h"

namespace cuda_perf {

namespace {

size_t device_of(const Rank& rank, const Options& options) {
  return options.devices[static_cast<size_t>(rank.rank) % options.devices.size()];
}

// CUDA_VISIBLE_DEVICES may already leave out some, or name them by UUID.
void hide_others(size_t number) {
  const char* const given = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream names(given ? given : "");
  std::string name = std::to_string(number);
  for (size_t i = 0; given && i <= number; ++i) {
    if (!std::getline(names, name, ',')) throw Failed("CUDA_VISIBLE_DEVICES has no device " + std::to_string(number));
  }
  setenv("CUDA_VISIBLE_DEVICES", name.c_str(), 1);
}

}  // namespace

void take_device(const Rank& rank, const Options& options) {
  const size_t device = device_of(rank, options);
  if (options.hidden) hide_others(device);
  check_cuda(cudaSetDevice(options.hidden ? 0 : static_cast<int>(device)), "cudaSetDevice");
}

Elsewhere::Elsewhere(const Rank& rank, const Options& options) {
  check_cuda(cudaGetDevice(&own_), "asking for the current device");
  other_ = own_;
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting devices");
  if (options.elsewhere && count > 1) other_ = (own_ + 1 + rank.rank % (count - 1)) % count;
  if (other_ != own_) check_cuda(cudaSetDevice(other_), "cudaSetDevice");
}

void Elsewhere::end() {
  int current = -1;
  check_cuda(cudaGetDevice(&current), "asking for the current device");
  if (current != other_) {
    throw Failed("a call left device " + std::to_string(current) + " current; expected " + std::to_string(other_));
  }
  if (other_ != own_) check_cuda(cudaSetDevice(own_), "cudaSetDevice");
}

Setup::Setup(Rank& of, const Options& options, size_t bytes) : rank(of) {
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
    char text[2048];
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
