// Buffers that the application frees and allocates again: no operation may use the memory of an earlier one, and peers
// must not keep what was freed.
#include <time.h>

#include <cstdio>
#include <random>

#include "bench.h"
#include "values.h"

namespace cuda_perf {

void run_churn(Rank& rank, const Options& options) {
  Setup setup(rank, options, 4096);
  std::mt19937 random(99);
  size_t free_before = 0, free_after = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free_before, &total), "asking for free memory");
  int done = 0;
  double bytes_done = 0;
  const double begin = now_s();
  for (; done < options.operations && now_s() - begin < options.limit_s; ++done) {
    const size_t count = (size_t{3} << 18) + random() % (size_t{1} << 20);
    const bool in_place = random() & 1;
    void *input = nullptr, *output = nullptr;
    check_cuda(cudaMalloc(&input, count * sizeof(float)), "allocating");
    output = input;
    if (!in_place) check_cuda(cudaMalloc(&output, count * sizeof(float)), "allocating");
    const auto seed = static_cast<uint32_t>(done);
    fill(input, count, 0, CC_FLOAT32, seed, rank.rank, setup.stream);
    require(cc_cuda_all_reduce(setup.handle, input, output, count, CC_FLOAT32, CC_SUM, setup.stream), "all_reduce");
    check_reduced(output, count, 0, CC_FLOAT32, CC_SUM, seed, rank.size, setup.wrong_count, setup.stream);
    require(cc_cuda_wait(setup.handle, options.timeout_ms), "cc_cuda_wait");
    check_cuda(cudaStreamSynchronize(setup.stream), "waiting");
    check_cuda(cudaFree(input), "freeing");
    if (!in_place) check_cuda(cudaFree(output), "freeing");
    bytes_done += static_cast<double>(count * sizeof(float)) * (in_place ? 1 : 2);
    // The draws are equal on all ranks, so that all end together.
    if (done % 50 == 49 && rank.largest(now_s() - begin) > options.limit_s) break;
  }
  const double wrong = rank.total(static_cast<double>(setup.wrong()));
  // Operations look for freed memory once a second: these of 4 bytes give it back.
  for (int i = 0; i < 40; ++i) {
    const timespec moment{0, 100000000};
    nanosleep(&moment, nullptr);
    require(cc_cuda_all_reduce(setup.handle, setup.input, setup.input, 1, CC_FLOAT32, CC_SUM, setup.stream),
            "all_reduce");
    require(cc_cuda_wait(setup.handle, options.timeout_ms), "cc_cuda_wait");
  }
  check_cuda(cudaMemGetInfo(&free_after, &total), "asking for free memory");
  rank.barrier();
  if (rank.rank == 0) {
    std::printf("churn ranks %d, %d operations, %.0f MB allocated and freed, %.1f MB missing at the end, wrong %.0f\n",
                rank.size, done, bytes_done / 1e6,
                (static_cast<double>(free_before) - static_cast<double>(free_after)) / 1e6, wrong);
    std::fflush(stdout);
  }
  if (wrong != 0) throw Failed("wrong elements");
}

}  // namespace cuda_perf
