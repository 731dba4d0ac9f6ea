// Ranks that do not come, call something else, abort or are killed: the others end with a named error, in time.
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "bench.h"
#include "values.h"

namespace cuda_perf {
namespace {

// Waits for the end of what is queued and prints how the handle is.
void report(Setup& setup, const char* what, double begin) {
  const cudaError_t code = cudaStreamSynchronize(setup.stream);
  const double seconds = now_s() - begin;
  const char* text = nullptr;
  const cc_result result = cc_cuda_poll(setup.handle, &text);
  std::printf("%s: rank %d of %d after %.1f ms: CUDA %s, %s: %s\n", what, setup.rank.rank, setup.rank.size,
              seconds * 1e3, cudaGetErrorString(code), cc_error_string(result), text);
  std::fflush(stdout);
}

void all_reduce(Setup& setup, size_t count) {
  const cc_result result =
      cc_cuda_all_reduce(setup.handle, setup.input, setup.output, count, CC_FLOAT32, CC_SUM, setup.stream);
  if (result != CC_SUCCESS && result != CC_ERROR_TIMEOUT && result != CC_ERROR_REMOTE) require(result, "all_reduce");
}

void warm_up(Setup& setup, size_t count) {
  for (int i = 0; i < 3; ++i) all_reduce(setup, count);
  check_cuda(cudaStreamSynchronize(setup.stream), "waiting");
  setup.rank.barrier();
}

}  // namespace

void run_faults(Rank& rank, const Options& options) {
  int path = CC_CUDA_PATH_AUTO;
  {
    Setup setup(rank, options, size_t{4096});
    require(cc_cuda_get_path(setup.handle, &path), "cc_cuda_get_path");
    rank.barrier();
  }
  // The CPUs would add less on the path `stream`, in calls that block, which a rank alone cannot abort.
  const size_t small = path == CC_CUDA_PATH_STREAM ? 200000 : 256;
  for (const size_t count : {small, size_t{1} << 20}) {
    for (const char* what : {"missing", "abort", "counts"}) {
      Setup setup(rank, options, size_t{8} << 20);
      warm_up(setup, count);
      double begin = now_s();
      if (what[0] == 'm' && rank.rank != 0) {
        all_reduce(setup, count);
        all_reduce(setup, count);
      } else if (what[0] == 'a' && rank.rank != 0) {
        all_reduce(setup, count);
        all_reduce(setup, count);
        usleep(50000);
        begin = now_s();
        if (rank.rank == 1) require(cc_cuda_abort(setup.handle), "cc_cuda_abort");
      } else if (what[0] == 'c') {
        all_reduce(setup, count + static_cast<size_t>(rank.rank == 1));
      }
      report(setup, what, begin);
      rank.barrier();
    }
  }
}

void run_killed(Rank& rank, const Options& options) {
  Setup setup(rank, options, size_t{8} << 20);
  const size_t count = 4096;
  warm_up(setup, count);
  const double begin = now_s();
  double killed = begin;
  if (rank.rank == 0) {
    usleep(200000);
    kill(rank.shared()->pids[rank.size - 1], SIGKILL);
    killed = now_s();
  }
  const char* text = nullptr;
  while (cc_cuda_poll(setup.handle, &text) == CC_SUCCESS && now_s() - begin < 20) {
    all_reduce(setup, count);
    if (cudaStreamSynchronize(setup.stream) != cudaSuccess) break;
  }
  report(setup, "killed", killed);
  std::fflush(stdout);
  _exit(0);
}

}  // namespace cuda_perf
