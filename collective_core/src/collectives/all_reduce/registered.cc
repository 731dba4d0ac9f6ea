#include "collectives/all_reduce/registered.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "collectives/fold.h"
#include "collectives/stage.h"
#include "common/copy_past_caches.h"
#include "common/dtype.h"
#include "common/error.h"
#include "schedule/schedule.h"
#include "transport/shm/windows.h"

namespace ccore {
namespace {

// Where a rank's buffers are; travels as bytes.
struct Offer {
  WindowPlace send;
  WindowPlace recv;
};
static_assert(sizeof(Offer) <= Arena::kInlineBytes, "goes with the first post");

// The buffers of a rank as this one sees them.
struct Buffers {
  const std::byte* send;
  std::byte* recv;
};

// A peer that fails is noticed after so many bytes at the latest.
constexpr size_t kCheckBytes = 1024 * 1024;

// None if a rank has nothing to offer, on which all agree: they look at the same offers.
std::optional<std::vector<Buffers>> meet(Stage* stage, const Context& context, const void* send, void* recv,
                                         size_t bytes) {
  const Windows& windows = *context.windows;
  const Offer own{windows.place_of(send, bytes), windows.place_of(recv, bytes)};
  stage->post_inlined(reinterpret_cast<const std::byte*>(&own), sizeof own);
  stage->wait(1);
  std::vector<Offer> offers;
  for (int member = 0; member < context.nranks; ++member) {
    Offer offer = own;
    if (member != context.rank) std::memcpy(&offer, stage->inlined_of(member), sizeof offer);
    if (offer.send.window == 0 || offer.recv.window == 0) return std::nullopt;
    offers.push_back(offer);
  }
  std::vector<Buffers> buffers;
  for (int member = 0; member < context.nranks; ++member) {
    const Offer& offer = offers[static_cast<size_t>(member)];
    const int rank = context.rank_of(member);
    const Buffers one{windows.at(rank, offer.send, bytes), windows.at(rank, offer.recv, bytes)};
    if (!one.send || !one.recv) {
      throw Error(CC_ERROR_INTERNAL, format("rank %d offers memory that is not in window %llu or %llu", rank,
                                            static_cast<unsigned long long>(offer.send.window),
                                            static_cast<unsigned long long>(offer.recv.window)));
    }
    buffers.push_back(one);
  }
  return buffers;
}

}  // namespace

bool all_reduce_registered(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                           cc_redop op) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  Stage stage(context, Stage::Data::inlined);
  const auto buffers = meet(&stage, context, send, recv, count * element);
  if (!buffers) {
    stage.finish();
    return false;
  }
  const Block block = block_of(count, context.nranks, context.rank);
  // A piece is summed in the first-level cache and goes out from there. Of this block nobody else reads or writes
  // anything, so a rank may reduce in place whatever the others do.
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const size_t most = kFoldBytes / element;
  size_t unchecked = 0;
  for (size_t done = 0; done < block.count; done += most) {
    const size_t n = std::min(most, block.count - done);
    const size_t at = (block.begin + done) * element;
    fold(sum.data(), n, context.nranks, reduction, context.average_over(),
         [&](int member) { return (*buffers)[static_cast<size_t>(member)].send + at; });
    for (const Buffers& one : *buffers) {
      // In place the line that is overwritten has just been read.
      const bool past = one.send != one.recv && count * element >= kPastCachesBytes;
      (past ? copy_past_caches : copy_into_caches)(one.recv + at, sum.data(), n * element);
    }
    unchecked += n * element;
    if (unchecked >= kCheckBytes) {
      context.wait->check();
      unchecked = 0;
    }
  }
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    // Parts that others read of the input, and blocks that are written to their outputs.
    const size_t theirs = block_of(count, context.nranks, member).count * element;
    stage.count_sent(member, theirs + block.count * element);
    stage.count_received(member, theirs + block.count * element);
  }
  stage.post();
  stage.wait(2);
  stage.finish();
  return true;
}

}  // namespace ccore
