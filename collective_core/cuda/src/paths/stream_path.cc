#include "paths/stream_path.h"

#include <algorithm>

#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int kBlocks = 264;  // two per multiprocessor of an H200: nothing waits in these kernels

void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

}  // namespace

StreamPath::StreamPath(const PathContext* context, uint32_t first_epoch)
    : context_(*context),
      begun_(&context->peers.host->begun),
      ended_(&context->peers.host->ended),
      epoch_(first_epoch) {}

// Tells the peers where this rank's buffers are, and waits until all have come.
void StreamPath::meet(const Placed& placed, uint64_t call, cudaStream_t stream) {
  ++epoch_;
  context_.service->set_queued(epoch_);
  context_.words->own_call = call;
  const int self = context_.peers.rank;
  words_.write(begun_, epoch_);
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank == self) continue;
    StreamLine* const line = &part_of(context_.peers.regions[rank], self)->stream;
    words_.write(&line->call, call);
    words_.write(&line->input, placed.input_at);
    words_.write(&line->output, placed.output_at);
    words_.write(&line->ready, epoch_);
  }
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank != self) words_.wait(&part_of(context_.peers.regions[self], rank)->stream.ready, epoch_);
  }
  words_.queue(stream);
}

void StreamPath::part(cudaStream_t stream) {
  const int self = context_.peers.rank;
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank != self) words_.write(&part_of(context_.peers.regions[rank], self)->stream.done, epoch_);
  }
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank != self) words_.wait(&part_of(context_.peers.regions[self], rank)->stream.done, epoch_);
  }
  words_.write(ended_, epoch_);
  words_.queue(stream);
  context_.service->notice_work();
}

void StreamPath::all_reduce(const ReduceCall& call) {
  const size_t most = context_.most_staging_bytes / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    TwoShot step{};
    step.in_stream = true;
    step.count = std::min(most, call.count - begin);
    step.input = call.send + begin * call.element;
    step.output = call.recv + begin * call.element;
    const size_t bytes = step.count * call.element;
    const Placed placed = place(context_, step.input, step.output, bytes);
    step.share = share_of(step.count, call.element, context_.peers.size);
    const size_t packs = step.share * call.element / 16;
    step.blocks = static_cast<int>(std::clamp<size_t>((packs + 511) / 512, 1, kBlocks));
    step.op = call.op;
    step.call = call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count);
    if (placed.stages_input) copy(placed.staging, step.input, bytes, call.stream);
    meet(placed, step.call, call.stream);
    // The own share of the result goes where the peers write theirs.
    void* const result = step.output;
    if (placed.stages_output) step.output = placed.staging;
    reduce_kernels(call.dtype)->two_shot(step, context_.peers, call.stream);
    part(call.stream);
    if (placed.stages_output) copy(result, placed.staging, bytes, call.stream);
  }
}

}  // namespace ccore_cuda
