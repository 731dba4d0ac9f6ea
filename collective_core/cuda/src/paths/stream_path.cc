#include "paths/stream_path.h"

#include <algorithm>

#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int kBlocks = 264;  // two per multiprocessor of an H200: nothing waits in these kernels

void copy_on_device(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

}  // namespace

StreamPath::StreamPath(const PathContext* context, uint32_t first_epoch)
    : context_(*context),
      words_(context->flushes_waits),
      begun_(&context->peers.host->begun),
      ended_(&context->peers.host->ended),
      epoch_(first_epoch) {}

void StreamPath::meet(const Placed& placed, uint64_t call, cudaStream_t stream) {
  ++epoch_;
  const uint32_t peers = ((1u << context_.peers.size) - 1) & ~(1u << context_.peers.rank);
  number_ = context_.service->begin_stream_operation({call, epoch_, true, peers});
  const int self = context_.peers.rank;
  words_.write(begun_, number_);
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank == self) continue;
    StreamLine* const line = context_.line(rank, self);
    uint64_t* const words = line->words[buffer_of(epoch_)];
    words_.write(&words[kCall], call);
    words_.write(&words[kInput], placed.input_for[rank]);
    words_.write(&words[kOutput], placed.output_for[rank]);
    words_.write(&line->epochs[buffer_of(epoch_)], epoch_);
    words_.write(&context_.waits_for(rank, self)->ready, epoch_);
  }
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank != self) words_.wait(&context_.waits_for(self, rank)->ready, epoch_);
  }
  words_.queue(stream);
}

void StreamPath::part(cudaStream_t stream, bool waits) {
  const int self = context_.peers.rank;
  for (int rank = 0; rank < context_.peers.size && waits; ++rank) {
    if (rank == self) continue;
    words_.write(&context_.line(rank, self)->done, epoch_);
    words_.write(&context_.waits_for(rank, self)->done, epoch_);
  }
  for (int rank = 0; rank < context_.peers.size && waits; ++rank) {
    if (rank != self) words_.wait(&context_.waits_for(self, rank)->done, epoch_);
  }
  words_.write(ended_, number_);
  words_.queue(stream);
  context_.service->notice_work();
}

void StreamPath::all_reduce(const ReduceCall& call) {
  if (call.count * call.element <= context_.slot_bytes && call.way != Way::kBuffers) return all_reduce_in_slots(call);
  const size_t most = context_.most_staging_bytes / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    TwoShot step = all_reduce_part(context_, call, begin, std::min(most, call.count - begin));
    two_shot(&step, call);
  }
}

void StreamPath::reduce_scatter(const ReduceCall& call) {
  const size_t most = most_of_share(context_) / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    TwoShot step = reduce_scatter_part(context_, call, begin, std::min(most, call.count - begin));
    two_shot(&step, call);
  }
}

void StreamPath::two_shot(TwoShot* step, const ReduceCall& call) {
  step->in_stream = true;
  step->blocks = blocks_for(step->share * call.element / 16, kTwoShotThreads, kBlocks);
  const Placed& placed = step->placed;
  // The shares of an all_reduce follow each other, those of a reduce_scatter may be parts of longer ones.
  const size_t rows = step->scatters ? static_cast<size_t>(context_.peers.size) : 1;
  const size_t width = (step->scatters ? step->share : step->count) * call.element;
  for (size_t row = 0; row < rows && placed.stages_input; ++row) {
    copy_on_device(placed.staging + row * step->staged_stride * call.element,
                   static_cast<const char*>(step->input) + row * step->stride * call.element, width, call.stream);
  }
  meet(placed, step->call, call.stream);
  // The own share of the result goes where the peers write theirs.
  void* const result = step->output;
  if (placed.stages_output) step->output = placed.staging;
  step->stream_epoch = epoch_;
  reduce_kernels(call.dtype)->two_shot(*step, context_.peers, call.stream);
  part(call.stream, true);
  if (placed.stages_output) copy_on_device(result, placed.staging, width, call.stream);
  // The peers write their shares before they are done.
  if (step->scatters) return;
  Seal seal{{}, 0, epoch_, result, width, invalid_value(step->call)};
  for (int rank = 0; rank < context_.peers.size; ++rank) {
    if (rank != context_.peers.rank) seal.words[seal.count++] = &context_.line(context_.peers.rank, rank)->done;
  }
  start_seal(seal, call.stream);
}

// Each rank writes its input into a slot of each peer, so that they meet only once: a slot is used again when its rank
// has come to the next operation but one, and so has read it.
void StreamPath::all_reduce_in_slots(const ReduceCall& call) {
  const uint32_t buffer = buffer_of(slots_used_++);
  const int self = context_.peers.rank, size = context_.peers.size;
  Push push{};
  FoldSlots fold{};
  for (int rank = 0; rank < size; ++rank) {
    push.slots[rank] = slot_of(context_.peers.regions[rank], size, context_.slot_bytes, self, buffer);
  }
  fold.in_stream = true;
  fold.slot = buffer;
  fold.slot_bytes = context_.slot_bytes;
  push.input = call.send;
  push.bytes = call.count * call.element;
  push.blocks = fold.blocks = blocks_for(push.bytes / 16, kPullThreads, kBlocks);
  start_push(push, context_.peers, call.stream);
  fold.input = call.send;
  fold.output = call.recv;
  fold.count = call.count;
  fold.op = call.op;
  fold.call = call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count);
  meet(Placed{}, fold.call, call.stream);
  fold.stream_epoch = epoch_;
  reduce_kernels(call.dtype)->fold_slots(fold, context_.peers, call.stream);
  part(call.stream, false);
}

void StreamPath::copy(const CopyCall& call) {
  const size_t most = context_.most_staging_bytes;
  for (size_t begin = 0; begin < call.bytes; begin += most) {
    Pull step = pull_part(context_, call, begin, std::min(most, call.bytes - begin));
    step.in_stream = true;
    step.blocks = blocks_for(step.bytes / 16, kPullThreads, kBlocks);
    if (step.placed.stages_input) copy_on_device(step.placed.staging, step.input, step.bytes, call.stream);
    meet(step.placed, step.call, call.stream);
    step.stream_epoch = epoch_;
    start_pull(step, context_.peers, call.stream);
    part(call.stream, true);
  }
}

}  // namespace ccore_cuda
