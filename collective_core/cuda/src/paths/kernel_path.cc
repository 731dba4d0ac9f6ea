#include "paths/kernel_path.h"

#include <algorithm>

namespace ccore_cuda {
// All ranks must take the same number, so it depends on the size alone.
int KernelPath::most_blocks(size_t bytes) const {
  return bytes >= kLargeBytes ? context_.blocks_of_large : context_.blocks;
}

size_t KernelPath::packet_capacity() const {
  return static_cast<size_t>(context_.blocks) * kPacketsPerBlock * kPacketBytes;
}

Spread KernelPath::spread(size_t bytes) const {
  Spread spread{};
  spread.packets = static_cast<uint32_t>((bytes + kPacketBytes - 1) / kPacketBytes);
  const uint32_t wanted = (spread.packets + kPacketThreads - 1) / kPacketThreads;
  const uint32_t blocks = std::min(wanted, static_cast<uint32_t>(context_.blocks));
  spread.packets_per_block = (spread.packets + blocks - 1) / blocks;
  // Rounding up may leave nothing for the last blocks.
  spread.blocks = static_cast<int>((spread.packets + spread.packets_per_block - 1) / spread.packets_per_block);
  return spread;
}

void KernelPath::reduce_by_packets(const ReduceCall& call, size_t stride, Kind kind) {
  const size_t most = packet_capacity() / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    PacketReduce part{};
    part.count = std::min(most, call.count - begin);
    part.spread = spread(part.count * call.element);
    part.input = call.send + begin * call.element;
    part.output = call.recv + begin * call.element;
    part.stride = stride;
    part.op = call.op;
    part.call = call_of(kind, call.dtype, call.op, 0, call.count);
    reduce_kernels(call.dtype)->packets(part, context_.peers, call.stream);
  }
}

bool KernelPath::goes_in_packets(Way way, size_t bytes) const {
  const bool decided = way == Way::kPackets || way == Way::kBuffers;
  return decided ? way == Way::kPackets : bytes <= context_.packet_bytes;
}

bool KernelPath::fits_packets(Way way, size_t bytes) const {
  return goes_in_packets(way, bytes) || !context_.maps_buffers;
}

void KernelPath::all_reduce(const ReduceCall& call) {
  if (goes_in_packets(call.way, call.count * call.element)) return reduce_by_packets(call, 0, Kind::kAllReduce);
  if (!context_.maps_buffers) return reduce_by_slots(call);
  const size_t most = context_.most_staging_bytes / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    TwoShot part = all_reduce_part(context_, call, begin, std::min(most, call.count - begin));
    part.blocks = blocks_for(part.share * call.element / 16, kTwoShotThreads, most_blocks(call.count * call.element));
    reduce_kernels(call.dtype)->two_shot(part, context_.peers, call.stream);
  }
}

void KernelPath::reduce_by_slots(const ReduceCall& call) {
  const size_t bytes_of_block = context_.slot_bytes / kMostBlocks;
  const size_t most = bytes_of_block * static_cast<size_t>(context_.blocks) / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    FoldSlots part{};
    part.count = std::min(most, call.count - begin);
    part.packs_per_block = bytes_of_block / 16;
    part.blocks = blocks_for(whole_packs(part.count * call.element) / 16, static_cast<int>(part.packs_per_block),
                             context_.blocks);
    part.slot_bytes = context_.slot_bytes;
    part.input = call.send + begin * call.element;
    part.output = call.recv + begin * call.element;
    part.op = call.op;
    part.call = call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count);
    reduce_kernels(call.dtype)->fold_slots(part, context_.peers, call.stream);
  }
}

void KernelPath::reduce_scatter(const ReduceCall& call) {
  if (fits_packets(call.way, call.count * call.element))
    return reduce_by_packets(call, call.count, Kind::kReduceScatter);
  const size_t most = most_of_share(context_) / call.element;
  for (size_t begin = 0; begin < call.count; begin += most) {
    TwoShot part = reduce_scatter_part(context_, call, begin, std::min(most, call.count - begin));
    part.blocks = blocks_for(part.share * call.element / 16, kTwoShotThreads, most_blocks(call.count * call.element));
    reduce_kernels(call.dtype)->two_shot(part, context_.peers, call.stream);
  }
}

void KernelPath::copy(const CopyCall& call) {
  if (fits_packets(call.way, call.bytes)) return copy_by_packets(call);
  const size_t most = context_.most_staging_bytes;
  for (size_t begin = 0; begin < call.bytes; begin += most) {
    Pull part = pull_part(context_, call, begin, std::min(most, call.bytes - begin));
    part.blocks = blocks_for(part.bytes / 16, kPullThreads, most_blocks(call.bytes));
    start_pull(part, context_.peers, call.stream);
  }
}

void KernelPath::copy_by_packets(const CopyCall& call) {
  const size_t most = packet_capacity();
  const Kind kind = call.root < 0 ? Kind::kAllGather : Kind::kBroadcast;
  for (size_t begin = 0; begin < call.bytes; begin += most) {
    PacketCopy part{};
    part.bytes = std::min(most, call.bytes - begin);
    part.spread = spread(part.bytes);
    part.input = call.send + begin;
    part.output = call.recv + begin;
    part.stride = call.bytes;
    part.root = call.root;
    part.call = call_of(kind, call.dtype, 0, std::max(call.root, 0), call.count);
    start_packet_copy(part, context_.peers, call.stream);
  }
}

}  // namespace ccore_cuda
