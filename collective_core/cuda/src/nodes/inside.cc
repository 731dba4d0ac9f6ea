#include "nodes/inside.h"

namespace ccore_cuda::nodes {
namespace {

void require_cuda(cc_result result) {
  if (result != CC_SUCCESS) throw Error(result, cc_cuda_last_error());
}

void copy(char* to, const char* from, size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

}  // namespace

Inside::Inside(const Places& places) : places_(places) {
  if (!places_.local()) return;
  require_cuda(cc_cuda_create(places_.local(), nullptr, &handle_));
  require_cuda(cc_cuda_get_path(handle_, &path_));
}

Inside::~Inside() { cc_cuda_destroy(handle_); }

// Whether the parts have equal sizes and an owner for each rank: then no copies are needed.
bool Inside::is_even(size_t count) const { return count % static_cast<size_t>(places_.local_size()) == 0; }

char* Inside::spread(size_t count, size_t element) {
  const auto ranks = static_cast<size_t>(places_.local_size());
  return padded_.of((count + ranks - 1) / ranks * ranks * element);
}

void Inside::reduce(const char* send, char* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream) {
  if (!handle_) return;
  const int ranks = places_.local_size(), self = places_.local_rank();
  if (places_.owners() != ranks) {  // nodes of different sizes
    return require_cuda(cc_cuda_all_reduce(handle_, send, recv, count, dtype, op, stream));
  }
  const size_t element = cc_dtype_size(dtype);
  const Part own = part_of(count, ranks, self);
  if (is_even(count)) {
    return require_cuda(
        cc_cuda_reduce_scatter(handle_, send, recv + own.begin * element, own.count, dtype, op, stream));
  }
  const size_t largest = part_of(count, ranks, 0).count;
  char* const padded = spread(count, element);
  for (int rank = 0; rank < ranks; ++rank) {
    const Part part = part_of(count, ranks, rank);
    char* const to = padded + static_cast<size_t>(rank) * largest * element;
    copy(to, send + part.begin * element, part.count * element, stream);
  }
  char* const mine = padded + static_cast<size_t>(self) * largest * element;
  require_cuda(cc_cuda_reduce_scatter(handle_, padded, mine, largest, dtype, op, stream));
  copy(recv + own.begin * element, mine, own.count * element, stream);
}

void Inside::share(char* recv, size_t count, cc_dtype dtype, cudaStream_t stream) {
  if (!handle_) return;
  const int ranks = places_.local_size(), self = places_.local_rank();
  const size_t element = cc_dtype_size(dtype);
  if (places_.owners() != ranks) {
    for (int owner = 0; owner < places_.owners(); ++owner) {
      const Part part = part_of(count, places_.owners(), owner);
      char* const at = recv + part.begin * element;
      if (part.count > 0) require_cuda(cc_cuda_broadcast(handle_, at, at, part.count, dtype, owner, stream));
    }
    return;
  }
  const Part own = part_of(count, ranks, self);
  if (is_even(count)) {
    return require_cuda(cc_cuda_all_gather(handle_, recv + own.begin * element, recv, own.count, dtype, stream));
  }
  const size_t largest = part_of(count, ranks, 0).count;
  char* const padded = spread(count, element);
  char* const mine = padded + static_cast<size_t>(self) * largest * element;
  copy(mine, recv + own.begin * element, own.count * element, stream);
  require_cuda(cc_cuda_all_gather(handle_, mine, padded, largest, dtype, stream));
  for (int rank = 0; rank < ranks; ++rank) {
    const Part part = part_of(count, ranks, rank);
    const char* const from = padded + static_cast<size_t>(rank) * largest * element;
    copy(recv + part.begin * element, from, part.count * element, stream);
  }
}

void Inside::check() const {
  if (!handle_) return;
  const char* text = nullptr;
  const cc_result result = cc_cuda_poll(handle_, &text);
  if (result != CC_SUCCESS) throw Error(result, text ? text : cc_cuda_last_error());
}

void Inside::abort() const {
  if (handle_) cc_cuda_abort(handle_);
}

}  // namespace ccore_cuda::nodes
