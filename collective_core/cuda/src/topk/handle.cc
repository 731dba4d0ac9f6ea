#include "topk/handle.h"

#include "error.h"

namespace ccore_cuda::topk {
namespace {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

size_t list_bytes(const Plan& plan) { return 2 * sizeof(uint32_t) * static_cast<size_t>(plan.capacity); }

}  // namespace

Memory::~Memory() { cudaFree(data_); }

void Memory::grow(size_t bytes) {
  if (has(bytes)) return;
  check(cudaFree(data_), "freeing scratch memory of top-k");
  data_ = nullptr;
  bytes_ = 0;
  check(cudaMalloc(&data_, bytes), "allocating scratch memory of top-k");
  check(cudaMemset(data_, 0, bytes), "clearing scratch memory of top-k");
  check(cudaDeviceSynchronize(), "clearing scratch memory of top-k");
  bytes_ = bytes;
}

Handle::Handle(size_t count, size_t kept) {
  board_.grow(board_bytes());
  if (count > 0) list_.grow(list_bytes(plan_of(count, kept, 0)));
  check(cudaHostAlloc(reinterpret_cast<void**>(&broken_), sizeof *broken_, cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating a word of host memory");
  *broken_ = 0;
  const cudaError_t code = cudaEventCreateWithFlags(&last_, cudaEventDisableTiming);
  if (code != cudaSuccess) {
    cudaFreeHost(broken_);
    check(code, "making an event");
  }
}

Handle::~Handle() {
  if (used_) cudaEventSynchronize(last_);
  cudaEventDestroy(last_);
  cudaFreeHost(broken_);
}

void Handle::select(const Input& input, const Plan& plan, const Output& output, cudaStream_t stream) {
  const size_t bytes = list_bytes(plan);
  enter(stream, &list_, bytes);
  auto* const values = list_.as<uint32_t>();
  topk::select(input, plan, Scratch{board_.as<Board>(), values, values + plan.capacity}, output, stream);
  leave(stream);
}

void Handle::sum(const SparseSum& request, cudaStream_t stream) {
  const size_t words = (static_cast<size_t>(request.count) + 31) / 32;
  if (needs_claims(request)) enter(stream, &claims_, words * sizeof(uint32_t));
  if (needs_sums(request)) enter(stream, &sums_, request.count * sizeof(float));
  enter(stream, nullptr, 0);
  add_up(request, SumScratch{sums_.as<float>(), claims_.as<uint32_t>(), broken_}, stream);
  leave(stream);
}

void Handle::enter(cudaStream_t stream, Memory* memory, size_t bytes) {
  const bool capturing = is_capturing(stream);
  if (memory && !memory->has(bytes)) {
    if (capturing) {
      throw Error(
          CC_ERROR_INVALID_USAGE,
          "the scratch memory of this top-k handle must grow, which the capture of a CUDA graph forbids; run the "
          "same request once before the capture");
    }
    if (used_) check(cudaEventSynchronize(last_), "waiting for the last top-k operation");
    memory->grow(bytes);
  }
  // The order of a graph among other work is its caller's.
  if (!capturing && used_ && stream != stream_)
    check(cudaStreamWaitEvent(stream, last_, 0), "ordering top-k operations");
}

void Handle::leave(cudaStream_t stream) {
  if (is_capturing(stream)) return;
  check(cudaEventRecord(last_, stream), "recording the end of a top-k operation");
  stream_ = stream;
  used_ = true;
}

}  // namespace ccore_cuda::topk
