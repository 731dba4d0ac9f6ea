// Every collective, type and operator with odd sizes and alignments, in place and not, call by call and in a graph.
#include <algorithm>
#include <cstdio>

#include "bench.h"
#include "values.h"

namespace cuda_perf {
namespace {

enum class Which { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll };
constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"};

struct Case {
  Which which;
  size_t count;
  cc_dtype dtype;
  cc_redop op;
  bool in_place;
  size_t shift;  // elements by which the buffers are off their alignment, on odd ranks
  int root;
};

void fill_and_call(Setup& setup, const Case& one, uint32_t seed) {
  const auto size = static_cast<size_t>(setup.rank.size), self = static_cast<size_t>(setup.rank.rank);
  const size_t element = cc_dtype_size(one.dtype);
  const size_t shift = self % 2 ? one.shift * element : 0;
  char* const input = setup.input + shift;
  char* output = setup.output + shift;
  const size_t block = one.count * element;
  if (!one.in_place) check_cuda(cudaMemsetAsync(output, 0xff, block * size, setup.stream), "clearing");
  switch (one.which) {
    case Which::kAllReduce:
      if (one.in_place) output = input;
      fill(input, one.count, 0, one.dtype, seed, setup.rank.rank, setup.stream);
      require(cc_cuda_all_reduce(setup.handle, input, output, one.count, one.dtype, one.op, setup.stream),
              "all_reduce");
      check_reduced(output, one.count, 0, one.dtype, one.op, seed, setup.rank.size, setup.wrong_count, setup.stream);
      break;
    case Which::kReduceScatter:
      if (one.in_place) output = input + self * block;
      fill(input, one.count * size, 0, one.dtype, seed, setup.rank.rank, setup.stream);
      require(cc_cuda_reduce_scatter(setup.handle, input, output, one.count, one.dtype, one.op, setup.stream),
              "reduce_scatter");
      check_reduced(output, one.count, self * one.count, one.dtype, one.op, seed, setup.rank.size, setup.wrong_count,
                    setup.stream);
      break;
    case Which::kAllGather: {
      char* const send = one.in_place ? output + self * block : input;
      fill(send, one.count, 0, one.dtype, seed, setup.rank.rank, setup.stream);
      require(cc_cuda_all_gather(setup.handle, send, output, one.count, one.dtype, setup.stream), "all_gather");
      for (int rank = 0; rank < setup.rank.size; ++rank) {
        check_copied(output + static_cast<size_t>(rank) * block, one.count, 0, one.dtype, seed, rank, setup.wrong_count,
                     setup.stream);
      }
      break;
    }
    case Which::kBroadcast:
      if (one.in_place) output = input;
      fill(input, one.count, 0, one.dtype, seed, setup.rank.rank, setup.stream);
      require(cc_cuda_broadcast(setup.handle, input, output, one.count, one.dtype, one.root, setup.stream),
              "broadcast");
      check_copied(output, one.count, 0, one.dtype, seed, one.root, setup.wrong_count, setup.stream);
      break;
    case Which::kAllToAll: {
      // Two transfers in each direction of each pair.
      fill(input, one.count * size, 0, one.dtype, seed, setup.rank.rank, setup.stream);
      if (one.in_place) check_cuda(cudaMemsetAsync(output, 0xff, block * size, setup.stream), "clearing");
      std::vector<cc_cuda_transfer> transfers;
      const size_t half = block / 2;
      for (size_t peer = 0; peer < size; ++peer) {
        for (const bool second : {false, true}) {
          const size_t begin = second ? half : 0, bytes = second ? block - half : half;
          transfers.push_back({input + peer * block + begin, nullptr, bytes, static_cast<int>(peer)});
          transfers.push_back({nullptr, output + peer * block + begin, bytes, static_cast<int>(peer)});
        }
      }
      require(cc_cuda_exchange(setup.handle, transfers.data(), transfers.size(), setup.stream), "exchange");
      for (int rank = 0; rank < setup.rank.size; ++rank) {
        check_copied(output + static_cast<size_t>(rank) * block, one.count, self * one.count, one.dtype, seed, rank,
                     setup.wrong_count, setup.stream);
      }
      break;
    }
  }
}

}  // namespace

void run_collectives(Rank& rank, const Options& options) {
  const auto size = static_cast<size_t>(rank.size);
  Setup setup(rank, options, options.most_bytes * size + 4096);
  int cases = 0;
  double wrong = 0;
  uint32_t seed = 1;
  const double begin = now_s();
  for (const Which which :
       {Which::kAllReduce, Which::kReduceScatter, Which::kAllGather, Which::kBroadcast, Which::kAllToAll}) {
    const bool reduces = which == Which::kAllReduce || which == Which::kReduceScatter;
    double wrong_here = 0;
    for (int dtype = 0; cc_dtype_size(static_cast<cc_dtype>(dtype)) != 0; ++dtype) {
      for (int op = CC_SUM; op <= (reduces ? CC_AVG : CC_SUM); ++op) {
        const size_t element = cc_dtype_size(static_cast<cc_dtype>(dtype));
        for (const size_t bytes : options.sizes) {
          // Odd counts; the first operators alone have all sizes.
          if (op > CC_PROD && bytes != options.sizes.front() && bytes != options.sizes.back()) continue;
          const size_t count = std::max<size_t>(1, bytes / element + seed % 3);
          Case one{which, count, static_cast<cc_dtype>(dtype), static_cast<cc_redop>(op), seed % 2 == 0, seed % 5, 0};
          one.root = static_cast<int>(seed % size);
          fill_and_call(setup, one, seed++);
          ++cases;
        }
      }
    }
    require(cc_cuda_wait(setup.handle, options.timeout_ms), "cc_cuda_wait");
    wrong_here = rank.total(static_cast<double>(setup.wrong()));
    if (wrong_here != 0 && rank.rank == 0) {
      std::printf("%s: %.0f wrong elements\n", kNames[static_cast<int>(which)], wrong_here);
    }
    wrong += wrong_here;
  }
  if (rank.rank == 0) {
    std::printf("collectives ranks %d, %d calls, %.2f s, wrong %.0f\n", rank.size, cases, now_s() - begin, wrong);
    std::fflush(stdout);
  }
  if (wrong != 0) throw Failed("wrong elements");
}

}  // namespace cuda_perf
