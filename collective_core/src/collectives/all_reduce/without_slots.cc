#include "collectives/all_reduce/without_slots.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/shm/fold.h"
#include "collectives/shm/stage.h"
#include "common/caches.h"
#include "common/dtype.h"
#include "common/error.h"
#include "schedule/schedule.h"
#include "transport/shm/cross_memory.h"
#include "transport/shm/windows.h"

namespace ccore {
namespace {

// The buffers of a rank as this one sees them.
struct Buffers {
  const std::byte* send;
  std::byte* recv;
};

// What is reduced before others who wait to leave are let go. A peer that fails is noticed after so many bytes at the
// latest.
constexpr size_t kSectionBytes = 128 * 1024;
constexpr size_t kCheckBytes = 1024 * 1024;

std::vector<Buffers> buffers_of(const Context& context, const std::vector<Offer>& offers, size_t bytes) {
  std::vector<Buffers> buffers;
  for (int member = 0; member < context.nranks; ++member) {
    const Offer& offer = offers[static_cast<size_t>(member)];
    const int rank = context.rank_of(member);
    const Buffers one{context.windows->at(rank, offer.send, bytes), context.windows->at(rank, offer.recv, bytes)};
    if (!one.send || !one.recv) {
      throw Error(CC_ERROR_INTERNAL, format("rank %d offers memory that is not in window %llu or %llu", rank,
                                            static_cast<unsigned long long>(offer.send.window),
                                            static_cast<unsigned long long>(offer.recv.window)));
    }
    buffers.push_back(one);
  }
  return buffers;
}

bool reached_by_kernel(const void* send, const void* recv, size_t bytes) {
  const auto* input = static_cast<const std::byte*>(send);
  const auto* output = static_cast<const std::byte*>(recv);
  return kernel_copies({input, input + bytes - 1, output, output + bytes - 1});
}

}  // namespace

static_assert(sizeof(Offer) <= Arena::kInlineBytes, "goes with the first post");

Offer offer_of(const Context& context, const void* send, const void* recv, size_t bytes, bool by_kernel) {
  Offer own;
  if (context.windows && context.windows->any_direct()) {
    own.send = context.windows->place_of(send, bytes);
    own.recv = context.windows->place_of(recv, bytes);
  }
  // Other ranks may have no window for theirs. What is in a window is memory like any other.
  if (by_kernel && bytes > 0 && (own.in_windows() || reached_by_kernel(send, recv, bytes))) {
    own.send_address = reinterpret_cast<uint64_t>(send);
    own.recv_address = reinterpret_cast<uint64_t>(recv);
  }
  return own;
}

std::vector<Offer> exchange_offers(Stage* stage, const Context& context, const Offer& own) {
  stage->post_inlined(reinterpret_cast<const std::byte*>(&own), sizeof own);
  stage->wait(1);
  std::vector<Offer> offers(static_cast<size_t>(context.nranks), own);
  for (int member = 0; member < context.nranks; ++member) {
    if (member != context.rank)
      std::memcpy(&offers[static_cast<size_t>(member)], stage->inlined_of(member), sizeof own);
  }
  return offers;
}

bool all_in_windows(const std::vector<Offer>& offers) {
  return std::all_of(offers.begin(), offers.end(), [](const Offer& one) { return one.in_windows(); });
}

bool all_have_addresses(const std::vector<Offer>& offers) {
  return std::all_of(offers.begin(), offers.end(), [](const Offer& one) { return one.has_addresses(); });
}

void end_without_slots(Stage* stage, const Context& context, size_t count, size_t element) {
  const size_t own = block_of(count, context.nranks, context.rank).count * element;
  for (int member = 0; member < context.nranks; ++member) {
    if (member == context.rank) continue;
    // Parts that others read of the input, and blocks that are written to their outputs.
    const size_t theirs = block_of(count, context.nranks, member).count * element;
    stage->count_sent(member, theirs + own);
    stage->count_received(member, theirs + own);
  }
  stage->post();
  stage->wait(2);
  stage->finish();
}

void reduce_in_windows(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers,
                       size_t count, cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const std::vector<Buffers> buffers = buffers_of(context, offers, count * element);
  const Block block = block_of(count, context.nranks, context.rank);
  // A piece is summed in the first-level cache and goes out from there. Of this block no other rank reads or writes
  // anything, so a rank may reduce in place whatever the others do.
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const auto reduce_piece = [&](size_t first, size_t n) {
    const size_t at = first * element;
    fold(sum.data(), n, context.nranks, reduction, context.average_over(),
         [&](int member) { return buffers[static_cast<size_t>(member)].send + at; });
    for (const Buffers& one : buffers) {
      // In place the line that is overwritten has just been read.
      const bool past = one.send != one.recv && count * element >= context.past_caches_bytes;
      (past ? copy_past_caches : copy_into_caches)(one.recv + at, sum.data(), n * element);
    }
  };
  const size_t piece = kFoldBytes / element;
  const size_t section = kSectionBytes / element;
  for (size_t begin = 0; begin < block.count; begin += section) {
    const MutualAccess::Section inside(access);
    const size_t end = std::min(begin + section, block.count);
    for (size_t done = begin; done < end; done += piece) {
      reduce_piece(block.begin + done, std::min(piece, end - done));
    }
    if (begin * element % kCheckBytes == kCheckBytes - kSectionBytes) context.wait->check();
  }
}

bool all_reduce_registered(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                           cc_redop op) {
  const size_t element = dtype_size(dtype);
  Stage stage(context, Stage::Data::inlined);
  MutualAccess access(context);
  const auto offers = exchange_offers(&stage, context, offer_of(context, send, recv, count * element, false));
  const bool reached = all_in_windows(offers);
  if (reached) {
    reduce_in_windows(context, access, offers, count, dtype, op);
    end_without_slots(&stage, context, count, element);
  } else {
    stage.finish();
  }
  access.finish();
  return reached;
}

}  // namespace ccore
