// The arguments of kernels that use peers' buffers, which the paths share.
#include <algorithm>

#include "paths/path.h"

namespace ccore_cuda {
namespace {

// Of inputs and outputs of all ranks: more than an L2 cache holds.
constexpr size_t kStreamsThroughFrom = size_t{96} << 20;

// Peers read and write packs of 16 bytes.
bool locate(const PathContext& context, const char* memory, size_t bytes, size_t stride, uint64_t* addresses) {
  return context.maps_buffers && (reinterpret_cast<uintptr_t>(memory) | stride) % 16 == 0 &&
         context.buffers->locate(memory, bytes, addresses);
}

}  // namespace

Placed place_shares(const PathContext& context, const char* input, char* output, const ShareLayout& layout) {
  Placed placed{};
  const int size = context.peers.size;
  placed.stages_input = !locate(context, input, layout.whole, layout.stride, placed.input_for);
  if (output == input) {
    placed.stages_output = placed.stages_input;
    std::copy_n(placed.input_for, size, placed.output_for);
  } else {
    placed.stages_output = output && !locate(context, output, layout.whole, layout.stride, placed.output_for);
  }
  if (placed.stages_input || placed.stages_output) {
    // A share of the staged input has been read when the result is written over it.
    const Staging::Place& staged = context.staging->reserve(layout.staged_stride * static_cast<size_t>(size));
    placed.staging = staged.memory;
    if (placed.stages_input) std::copy_n(staged.addresses, size, placed.input_for);
    if (placed.stages_output) std::copy_n(staged.addresses, size, placed.output_for);
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto number = static_cast<size_t>(rank);
    placed.input_for[rank] += number * (placed.stages_input ? layout.staged_stride : layout.stride);
    placed.output_for[rank] += number * (placed.stages_output ? layout.staged_stride : layout.stride);
  }
  return placed;
}

Placed place_input(const PathContext& context, const char* input, size_t bytes) {
  Placed placed{};
  placed.stages_input = !locate(context, input, bytes, 0, placed.input_for);
  if (placed.stages_input) {
    const Staging::Place& staged = context.staging->reserve(whole_packs(bytes));
    placed.staging = staged.memory;
    std::copy_n(staged.addresses, context.peers.size, placed.input_for);
  }
  return placed;
}

TwoShot all_reduce_part(const PathContext& context, const ReduceCall& call, size_t begin, size_t count) {
  TwoShot part{};
  const auto size = static_cast<size_t>(context.peers.size);
  const size_t share_bytes = whole_packs((count + size - 1) / size * call.element);
  const char* const input = call.send + begin * call.element;
  char* const output = call.recv + begin * call.element;
  part.input = input;
  part.output = output;
  part.placed = place_shares(context, input, output, {count * call.element, share_bytes, share_bytes});
  part.count = count;
  part.share = part.stride = part.staged_stride = share_bytes / call.element;
  part.streams_through = 2 * size * count * call.element >= kStreamsThroughFrom;
  part.op = call.op;
  part.call = call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count);
  return part;
}

TwoShot reduce_scatter_part(const PathContext& context, const ReduceCall& call, size_t begin, size_t count) {
  TwoShot part{};
  const auto size = static_cast<size_t>(context.peers.size);
  const char* const input = call.send + begin * call.element;
  const size_t stride = call.count * call.element, staged_stride = whole_packs(count * call.element);
  part.scatters = true;
  part.input = input;
  part.output = call.recv + begin * call.element;
  part.placed =
      place_shares(context, input, nullptr, {stride * (size - 1) + count * call.element, stride, staged_stride});
  part.count = count * size;
  part.share = count;
  part.stride = call.count;
  part.staged_stride = staged_stride / call.element;
  part.streams_through = size * size * count * call.element >= kStreamsThroughFrom;
  part.op = call.op;
  part.call = call_of(Kind::kReduceScatter, call.dtype, call.op, 0, call.count);
  return part;
}

Pull pull_part(const PathContext& context, const CopyCall& call, size_t begin, size_t bytes) {
  Pull part{};
  part.input = call.send + begin;
  part.output = call.recv + begin;
  if (call.root < 0 || call.root == context.peers.rank) part.placed = place_input(context, part.input, bytes);
  part.bytes = bytes;
  part.stride = call.bytes;
  part.root = call.root;
  part.call =
      call_of(call.root < 0 ? Kind::kAllGather : Kind::kBroadcast, call.dtype, 0, std::max(call.root, 0), call.count);
  return part;
}

}  // namespace ccore_cuda
