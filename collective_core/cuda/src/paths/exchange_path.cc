#include "paths/exchange_path.h"

#include <algorithm>

#include "error.h"

namespace ccore_cuda {
namespace {

constexpr size_t kBytesOfBlock = size_t{16} << 10;  // less is not worth another block

// The distance at which two ranks meet in a round. Ranks that go through the distances in one order cannot block each
// other in a circle.
int distance_of(const Transfer& transfer, int rank, int size) {
  return transfer.sends ? (transfer.peer - rank + size) % size : (rank - transfer.peer + size) % size;
}

}  // namespace

// All ranks must come to the same sizes: they depend on nothing of the single rank.
ExchangePath::ExchangePath(const PathContext* context, uint32_t first_epoch)
    : context_(*context),
      most_bytes_(context->maps_buffers ? most_of_share(*context) : context->slot_bytes),
      most_blocks_(std::clamp(context->blocks / std::max(1, 2 * (context->peers.size - 1)), 1, kTransferBlocks)),
      words_(context->flushes_waits),
      sent_(static_cast<size_t>(context->peers.size), first_epoch),
      received_(static_cast<size_t>(context->peers.size), first_epoch) {}

int ExchangePath::blocks_of(size_t bytes) const {
  return static_cast<int>(
      std::clamp<size_t>((bytes + kBytesOfBlock - 1) / kBytesOfBlock, 1, static_cast<size_t>(most_blocks_)));
}

void ExchangePath::exchange(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream,
                            bool waits_in_stream) {
  copy_own(transfers, count, stream);
  for (Round& round : rounds_of(transfers, count)) {
    place(&round);
    if (waits_in_stream) {
      run_in_stream(round, stream);
    } else {
      run_in_kernels(round, stream);
    }
  }
}

void ExchangePath::copy_own(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream) const {
  std::vector<const cc_cuda_transfer*> sends, receives;
  for (size_t i = 0; i < count; ++i) {
    if (transfers[i].peer == context_.peers.rank) (transfers[i].send ? sends : receives).push_back(&transfers[i]);
  }
  if (sends.size() != receives.size()) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, std::to_string(sends.size()) + " sends and " +
                                               std::to_string(receives.size()) +
                                               " receives of this rank with itself; their numbers must be equal");
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes != receives[i]->bytes) {
      throw Error(CC_ERROR_INVALID_ARGUMENT, "a transfer of this rank to itself sends " +
                                                 std::to_string(sends[i]->bytes) + " bytes and receives " +
                                                 std::to_string(receives[i]->bytes));
    }
    if (sends[i]->send == receives[i]->recv || sends[i]->bytes == 0) continue;
    check(cudaMemcpyAsync(receives[i]->recv, sends[i]->send, sends[i]->bytes, cudaMemcpyDeviceToDevice, stream),
          "copying on the GPU");
  }
}

std::vector<ExchangePath::Round> ExchangePath::rounds_of(const cc_cuda_transfer* transfers, size_t count) const {
  std::vector<Round> rounds;
  std::vector<size_t> next[2] = {std::vector<size_t>(static_cast<size_t>(context_.peers.size)),
                                 std::vector<size_t>(static_cast<size_t>(context_.peers.size))};
  for (size_t i = 0; i < count; ++i) {
    const cc_cuda_transfer& whole = transfers[i];
    if (whole.peer == context_.peers.rank) continue;
    for (size_t begin = 0; begin < whole.bytes; begin += most_bytes_) {
      Transfer part{};
      part.sends = whole.send != nullptr;
      part.from = whole.send ? static_cast<const char*>(whole.send) + begin : nullptr;
      part.to = whole.recv ? static_cast<char*>(whole.recv) + begin : nullptr;
      part.bytes = std::min(most_bytes_, whole.bytes - begin);
      part.peer = whole.peer;
      part.blocks = blocks_of(part.bytes);
      const size_t round = next[part.sends][static_cast<size_t>(part.peer)]++;
      if (round == rounds.size()) rounds.emplace_back();
      rounds[round].push_back(part);
    }
  }
  const int rank = context_.peers.rank, size = context_.peers.size;
  for (Round& round : rounds) {
    std::stable_sort(round.begin(), round.end(), [&](const Transfer& a, const Transfer& b) {
      return distance_of(a, rank, size) < distance_of(b, rank, size);
    });
  }
  return rounds;
}

// Where the peers find what this rank sends.
void ExchangePath::place(Round* round) const {
  size_t staged = 0;
  uint64_t addresses[kMostRanks];
  std::vector<Transfer*> waiting;
  for (Transfer& transfer : *round) {
    if (!transfer.sends) continue;
    if (!context_.maps_buffers) {
      transfer.stages = true;
      transfer.to = slot_of(context_.peers.regions[context_.peers.rank], context_.peers.size, context_.slot_bytes,
                            transfer.peer, 0);
    } else if (context_.buffers->locate(transfer.from, transfer.bytes, addresses)) {
      transfer.address = addresses[transfer.peer];
    } else {
      waiting.push_back(&transfer);
      staged += whole_packs(transfer.bytes);
    }
  }
  if (waiting.empty()) return;
  const Staging::Place& staging = context_.staging->reserve(staged);
  size_t offset = 0;
  for (Transfer* transfer : waiting) {
    transfer->stages = true;
    transfer->to = staging.memory + offset;
    transfer->address = staging.addresses[transfer->peer] + offset;
    offset += whole_packs(transfer->bytes);
  }
}

void ExchangePath::run_in_kernels(const Round& round, cudaStream_t stream) {
  const int rank = context_.peers.rank, size = context_.peers.size;
  // As many distances in one kernel as have blocks for both directions; the same on all ranks.
  const int at_once = std::max(1, context_.blocks / (2 * most_blocks_));
  size_t at = 0;
  for (int first = 1; first < size; first += at_once) {
    Exchange call{};
    call.slot_bytes = context_.slot_bytes;
    while (at < round.size() && distance_of(round[at], rank, size) < first + at_once) {
      Transfer& transfer = call.transfers[call.count++];
      transfer = round[at++];
      transfer.first_block = call.blocks;
      call.blocks += transfer.blocks;
    }
    if (call.count) start_exchange(call, context_.peers, stream);
  }
}

void ExchangePath::run_in_stream(const Round& round, cudaStream_t stream) {
  const int self = context_.peers.rank;
  Exchange call{};
  call.in_stream = true;
  for (const Transfer& transfer : round) {
    if (!transfer.sends) {
      call.transfers[call.count] = transfer;
      call.transfers[call.count].number = received_[static_cast<size_t>(transfer.peer)] + 1;
      call.transfers[call.count++].first_block = call.blocks;
      call.blocks += transfer.blocks;
    } else if (transfer.stages) {
      check(cudaMemcpyAsync(transfer.to, transfer.from, transfer.bytes, cudaMemcpyDeviceToDevice, stream),
            "copying on the GPU");
    }
  }
  uint32_t peers = 0;
  for (const Transfer& transfer : round) peers |= 1u << transfer.peer;
  const uint64_t text = call_of(Kind::kExchange, 0, 0, 0, round[0].bytes);
  const uint32_t number = context_.service->begin_stream_operation({text, 0, false, peers});
  words_.write(&context_.peers.host->begun, number);
  for (const Transfer& transfer : round) {
    if (!transfer.sends) continue;
    StreamLine* const theirs = context_.line(transfer.peer, self);
    words_.write(&theirs->address, transfer.address);
    words_.write(&theirs->bytes, transfer.bytes);
    words_.write(&theirs->sent, ++sent_[static_cast<size_t>(transfer.peer)]);
    words_.write(&context_.waits_for(transfer.peer, self)->sent, sent_[static_cast<size_t>(transfer.peer)]);
  }
  for (const Transfer& transfer : round) {
    if (transfer.sends) continue;
    const size_t peer = static_cast<size_t>(transfer.peer);
    words_.wait(&context_.waits_for(self, transfer.peer)->sent, ++received_[peer]);
  }
  words_.queue(stream);
  if (call.count) start_exchange(call, context_.peers, stream);
  for (const Transfer& transfer : round) {
    if (transfer.sends) continue;
    words_.write(&context_.waits_for(transfer.peer, self)->received, received_[static_cast<size_t>(transfer.peer)]);
  }
  for (const Transfer& transfer : round) {
    if (!transfer.sends) continue;
    words_.wait(&context_.waits_for(self, transfer.peer)->received, sent_[static_cast<size_t>(transfer.peer)]);
  }
  words_.write(&context_.peers.host->ended, number);
  words_.queue(stream);
  context_.service->notice_work();
}

}  // namespace ccore_cuda
