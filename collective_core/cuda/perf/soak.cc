// Random sizes, alignments, types, operators, handles and streams, in place and not; all checked on the GPU.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "bench.h"
#include "values.h"

namespace cuda_perf {
namespace {

// A stream of another device is refused, on every rank and before anything is queued.
void offer_wrong_stream(Rank& rank, const Options& options, Setup& setup) {
  cudaStream_t stream = nullptr;
  Elsewhere elsewhere(rank, options);
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  const bool is_wrong = elsewhere.is_elsewhere();
  elsewhere.end();
  if (is_wrong) {
    const cc_result result = cc_cuda_all_reduce(setup.handle, setup.input, setup.output, 1, CC_FLOAT32, CC_SUM, stream);
    if (result != CC_ERROR_INVALID_ARGUMENT) throw Failed("a stream of another device was not refused");
  }
  cudaStreamDestroy(stream);
}

}  // namespace

void run_soak(Rank& rank, const Options& options) {
  Setup setup(rank, options, options.most_bytes + 256);
  std::vector<cc_comm*> comms{setup.comm};
  std::vector<cc_cuda*> handles{setup.handle};
  for (int i = 1; i < options.handles; ++i) {
    comms.push_back(rank.make_comm(i, options.timeout_ms));
    cc_cuda_options cuda{};
    cuda.size = sizeof cuda;
    cuda.first_epoch = options.first_epoch;
    handles.push_back(rank.make_handle(comms.back(), cuda));
  }
  offer_wrong_stream(rank, options, setup);
  cudaStream_t streams[2] = {setup.stream, nullptr};
  check_cuda(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking), "making a stream");
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  std::mt19937 random(4711);
  const double begin = now_s();
  int done = 0;
  double bytes_done = 0;
  unsigned long long wrong = 0;
  while (done < options.operations) {
    for (int i = 0; i < 50 && done < options.operations; ++i, ++done) {
      const auto dtype = static_cast<cc_dtype>(random() % 12);
      const size_t element = cc_dtype_size(dtype);
      const bool is_float = dtype <= CC_BFLOAT16 || dtype >= CC_FLOAT8_E4M3;
      const auto op = static_cast<cc_redop>(is_float ? random() % 5 : random() % 4);
      const double logarithm =
          std::uniform_real_distribution<>(3, std::log2(static_cast<double>(options.most_bytes)))(random);
      const size_t count = std::max<size_t>(1, static_cast<size_t>(std::exp2(logarithm)) / element);
      // A rank's alignment is its own; the draws are equal on all ranks.
      size_t shift[2] = {};
      for (int r = 0; r < rank.size; ++r) {
        for (size_t& one : shift) {
          const size_t drawn = random() % 2 ? 0 : random() % 16;
          if (r == rank.rank) one = drawn;
        }
      }
      const bool in_place = random() & 1;
      const auto seed = static_cast<uint32_t>(done) * 77 + 1;
      cc_cuda* const handle = handles[random() % handles.size()];
      // One stream waits for the other: the buffers are shared.
      cudaStream_t const stream = streams[random() & 1];
      check_cuda(cudaStreamWaitEvent(stream, event, 0), "ordering");
      char* const input = setup.input + shift[0] * element;
      char* const output = in_place ? input : setup.output + shift[1] * element;
      fill(input, count, 0, dtype, seed, rank.rank, stream);
      if (!in_place) check_cuda(cudaMemsetAsync(output, 0xff, count * element, stream), "clearing");
      Elsewhere elsewhere(rank, options);
      require(cc_cuda_all_reduce(handle, input, output, count, dtype, op, stream), "cc_cuda_all_reduce");
      elsewhere.end();
      check_reduced(output, count, 0, dtype, op, seed, rank.size, setup.wrong_count, stream);
      check_cuda(cudaEventRecord(event, stream), "ordering");
      bytes_done += static_cast<double>(count * element);
      const uint32_t who = random();
      if (random() % 97 == 0 && static_cast<int>(who % static_cast<uint32_t>(rank.size)) == rank.rank) usleep(200);
    }
    Elsewhere elsewhere(rank, options);
    for (cc_cuda* handle : handles) {
      require(cc_cuda_wait(handle, options.timeout_ms), "cc_cuda_wait");
    }
    elsewhere.end();
    check_cuda(cudaDeviceSynchronize(), "waiting");
    if (rank.largest(now_s() - begin) > options.limit_s) break;
  }
  const double seconds = now_s() - begin;
  wrong = setup.wrong();
  const double all_wrong = rank.total(static_cast<double>(wrong));
  if (rank.rank == 0) {
    std::printf("soak ranks %d, %d operations, %.0f MB, %zu handles, 2 streams, %.2f s, wrong %.0f\n", rank.size, done,
                bytes_done / 1e6, handles.size(), seconds, all_wrong);
    std::fflush(stdout);
  }
  Elsewhere elsewhere(rank, options);
  for (size_t i = 1; i < handles.size(); ++i) {
    cc_cuda_destroy(handles[i]);
    cc_comm_destroy(comms[i]);
  }
  elsewhere.end();
  cudaStreamDestroy(streams[1]);
  cudaEventDestroy(event);
  if (all_wrong != 0) throw Failed("wrong elements");
}

}  // namespace cuda_perf
