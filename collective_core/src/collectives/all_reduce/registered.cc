#include "collectives/all_reduce/registered.h"

#include <algorithm>
#include <array>

#include "collectives/fold.h"
#include "collectives/stage.h"
#include "common/copy_past_caches.h"
#include "common/dtype.h"
#include "common/error.h"
#include "schedule/schedule.h"
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

}  // namespace

void reduce_in_windows(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers, size_t count,
                       cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  const std::vector<Buffers> buffers = buffers_of(context, offers, count * element);
  const Block block = block_of(count, context.nranks, context.rank);
  // A piece is summed in the first-level cache and goes out from there. Of this block nobody else reads or writes
  // anything, so a rank may reduce in place whatever the others do.
  alignas(64) std::array<std::byte, kFoldBytes> sum;
  const auto reduce_piece = [&](size_t first, size_t n) {
    const size_t at = first * element;
    fold(sum.data(), n, context.nranks, reduction, context.average_over(),
         [&](int member) { return buffers[static_cast<size_t>(member)].send + at; });
    for (const Buffers& one : buffers) {
      // In place the line that is overwritten has just been read.
      const bool past = one.send != one.recv && count * element >= kPastCachesBytes;
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
