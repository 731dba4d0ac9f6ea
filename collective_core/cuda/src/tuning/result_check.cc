#include "tuning/result_check.h"

#include <algorithm>

#include "error.h"
#include "tuning/compare.h"

namespace ccore_cuda {
namespace {

// Of each of three buffers. Longer calls are rehearsed with their first elements: the kernels are the same.
constexpr size_t kBytes = size_t{4} << 20;
constexpr size_t kWrongBytes = size_t{kCallClasses} * kMostCandidates * sizeof(uint32_t);

bool gathers(const cc_cuda_call& call) { return call.collective == CC_CUDA_ALL_GATHER; }
bool scatters(const cc_cuda_call& call) { return call.collective == CC_CUDA_REDUCE_SCATTER; }

// Whether two correct results may differ in their last bits.
bool rounds(const cc_cuda_call& call) {
  const bool reduces = call.collective == CC_CUDA_ALL_REDUCE || scatters(call);
  return reduces && call.op != CC_MIN && call.op != CC_MAX;
}

}  // namespace

ResultCheck::ResultCheck(int rank, int ranks) : rank_(rank), ranks_(ranks), memory_(3 * kBytes), wrong_(kWrongBytes) {
  load_compare_kernels();
  check(cudaEventCreateWithFlags(&free_, cudaEventDisableTiming), "making an event");
}

ResultCheck::~ResultCheck() { cudaEventDestroy(free_); }

uint32_t* ResultCheck::words_of(CallClass of, void* begin) const {
  return static_cast<uint32_t*>(begin) + static_cast<size_t>(of.index()) * kMostCandidates;
}

void ResultCheck::queue(const cc_cuda_call& call, CallClass of, size_t candidates, const CarryOut& carry_out) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  const size_t element = cc_dtype_size(call.dtype);
  const auto ranks = static_cast<size_t>(ranks_);
  const size_t shares = gathers(call) || scatters(call) ? ranks : 1;
  char* const input = memory_.as<char>();
  char* const expected = input + kBytes;
  char* const result = expected + kBytes;
  cc_cuda_call one = call;
  one.count = std::min(call.count, kBytes / (element * shares));
  one.send = input;
  one.checks = 1;
  const size_t given = scatters(call) ? one.count * shares : one.count;
  const size_t got = gathers(call) ? one.count * shares : one.count;
  check(cudaStreamWaitEvent(stream, free_, 0), "ordering streams");
  start_fill(input, given, call.dtype, rank_, stream);
  // Other contents, so that what is not written is not equal.
  check(cudaMemsetAsync(expected, 0x55, got * element, stream), "clearing memory on the GPU");
  one.recv = expected;
  carry_out(one, 0);
  for (size_t candidate = 1; candidate < candidates; ++candidate) {
    check(cudaMemsetAsync(result, 0x2a, got * element, stream), "clearing memory on the GPU");
    one.recv = result;
    carry_out(one, candidate);
    start_compare(expected, result, got, call.dtype, rounds(call), ranks_,
                  words_of(of, wrong_.device<void>()) + candidate, stream);
  }
  check(cudaEventRecord(free_, stream), "recording the end of an operation");
}

void ResultCheck::read(CallClass of, Record* record) const {
  const volatile uint32_t* const words = words_of(of, wrong_.host<void>());
  for (size_t candidate = 0; candidate < kMostCandidates; ++candidate) record->wrong[candidate] = words[candidate] != 0;
}

}  // namespace ccore_cuda
