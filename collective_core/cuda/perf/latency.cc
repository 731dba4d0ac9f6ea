// Time per all_reduce: in a CUDA graph of 20, in a queue of up to 100 calls that the host waits for once, or of a single
// call that it waits for.
#include <algorithm>
#include <cstdio>

#include "bench.h"
#include "values.h"

namespace cuda_perf {
namespace {

constexpr int kTogether = 20;
constexpr int kRepeats = 9;
constexpr int kRepeatsOfSingle = 45;

}  // namespace

void run_latency(Rank& rank, const Options& options) {
  const bool graph = options.test == "graph", single = options.test == "single";
  const int calls = single ? 1 : kTogether;
  const size_t most = *std::max_element(options.sizes.begin(), options.sizes.end());
  Setup setup(rank, options, most);
  for (const size_t bytes : options.sizes) {
    const size_t count = bytes / sizeof(float);
    fill(setup.input, count, 0, CC_FLOAT32, 7, rank.rank, setup.stream);
    const auto call = [&] {
      require(cc_cuda_all_reduce(setup.handle, setup.input, setup.output, count, CC_FLOAT32, CC_SUM, setup.stream),
              "cc_cuda_all_reduce");
    };
    cudaGraphExec_t executable = nullptr;
    if (graph) {
      cudaGraph_t captured = nullptr;
      check_cuda(cudaStreamBeginCapture(setup.stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
      for (int i = 0; i < calls; ++i) call();
      check_cuda(cudaStreamEndCapture(setup.stream, &captured), "ending a capture");
      check_cuda(cudaGraphInstantiate(&executable, captured, 0), "making a graph");
      check_cuda(cudaGraphUpload(executable, setup.stream), "uploading a graph");
      cudaGraphDestroy(captured);
    }
    const auto go = [&] {
      if (graph) {
        check_cuda(cudaGraphLaunch(executable, setup.stream), "starting a graph");
      } else {
        for (int i = 0; i < calls; ++i) call();
      }
    };
    const auto ended = [&] {
      check_cuda(cudaStreamSynchronize(setup.stream), "waiting");
      const char* text = nullptr;
      if (cc_cuda_poll(setup.handle, &text) != CC_SUCCESS) throw Failed(text);
    };
    ended();
    rank.barrier();
    double begin = now_s();
    go();
    ended();
    const double first = rank.largest(now_s() - begin);
    const bool slow = first > 0.005;
    const int launches = slow || single ? 1 : graph ? 10 : 5;
    const int repeats = first > 0.05 ? 3 : single ? kRepeatsOfSingle : kRepeats;
    std::vector<double> times;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      rank.barrier();
      begin = now_s();
      for (int i = 0; i < launches; ++i) go();
      ended();
      times.push_back((now_s() - begin) / (calls * launches));
    }
    std::sort(times.begin(), times.end());
    const double median = rank.largest(times[times.size() / 2]);
    check_reduced(setup.output, count, 0, CC_FLOAT32, CC_SUM, 7, rank.size, setup.wrong_count, setup.stream);
    const double wrong = rank.total(static_cast<double>(setup.wrong()));
    if (rank.rank == 0) {
      std::printf("%s ranks %d %10zu B %10.2f us (least %.2f) %8.2f GB/s, first %.1f ms, wrong %.0f\n",
                  options.test.c_str(), rank.size, bytes, median * 1e6, times[0] * 1e6,
                  static_cast<double>(bytes) / median / 1e9, first * 1e3, wrong);
      std::fflush(stdout);
    }
    if (executable) cudaGraphExecDestroy(executable);
    if (wrong != 0) throw Failed("wrong elements");
    rank.barrier();
  }
}

}  // namespace cuda_perf
