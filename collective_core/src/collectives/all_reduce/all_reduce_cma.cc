#include "collectives/all_reduce/all_reduce_cma.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/all_reduce/all_reduce_twoshot.h"
#include "collectives/all_reduce/offers.h"
#include "collectives/all_reduce/registered.h"
#include "collectives/mutual_access.h"
#include "collectives/stream.h"
#include "common/copy_past_caches.h"
#include "common/dtype.h"
#include "schedule/schedule.h"
#include "transport/shm/cross_memory.h"

namespace ccore {
namespace {

// Of a block, at a time: small enough for the second-level cache, with what it is made of and where it goes, and so large
// that a call costs little against what it copies. In loops of 1 to 16 MiB on a Xeon with 2 MiB of that cache, 256 KiB
// took 3 to 30 % less time than 128 KiB, and that less than 64 KiB; 512 KiB took 20 % more of 16 MiB.
constexpr size_t kChunkBytes = 256 * 1024;
// A peer that fails is noticed after so many bytes at the latest.
constexpr size_t kCheckBytes = 1024 * 1024;

class CrossReduction {
 public:
  CrossReduction(const Context& context, const std::vector<Offer>& offers, const void* send, void* recv, cc_dtype dtype,
                 cc_redop op)
      : context_(context),
        memory_(*context.cross_memory),
        offers_(offers),
        send_(static_cast<const std::byte*>(send)),
        recv_(static_cast<std::byte*>(recv)),
        reduction_{reduce_function(dtype, op), last_reduce_function(dtype, op), dtype_size(dtype)},
        held_(memory_.scratch(2 * kChunkBytes)),
        incoming_(held_ + kChunkBytes) {}

  // Of `count` elements from byte `at` of the buffers on, in one section.
  void reduce_chunk(const MutualAccess& access, size_t at, size_t count) {
    const MutualAccess::Section inside(access);
    const std::byte* sum = fold_parts(at, count);
    const size_t bytes = count * reduction_.element_bytes;
    if (sum != recv_ + at) std::memcpy(recv_ + at, sum, bytes);
    inside.check();
    // Each rank begins with another one: they do not crowd at the first.
    for (int step = 1; step < context_.nranks; ++step) {
      const int member = (context_.rank + step) % context_.nranks;
      memory_.write(context_.rank_of(member), offers_[static_cast<size_t>(member)].recv_address + at, sum, bytes);
    }
  }

 private:
  // In the order of ranks. Of this block nobody else reads or writes anything, so a rank may reduce in place. Apart, the
  // first part from another rank is copied to where the sum will be: one place less to keep in the caches. In place, the
  // own part of a rank after the second would be gone before its turn, unless the sum is made elsewhere.
  const std::byte* fold_parts(size_t at, size_t count) {
    const bool apart = send_ != recv_;
    std::byte* sum = apart || context_.rank < 2 ? recv_ + at : held_;
    std::byte* first = apart ? sum : held_;
    const std::byte* so_far = part_of(0, at, count, first);
    for (int member = 1; member < context_.nranks; ++member) {
      const std::byte* part = part_of(member, at, count, so_far == send_ + at && member == 1 ? first : incoming_);
      const ReduceFunction reduce = member + 1 == context_.nranks ? reduction_.last : reduction_.hop;
      reduce(sum, so_far, part, count, context_.average_over());
      so_far = sum;
    }
    return so_far;
  }

  const std::byte* part_of(int member, size_t at, size_t count, std::byte* to) const {
    if (member == context_.rank) return send_ + at;
    memory_.read(context_.rank_of(member), to, offers_[static_cast<size_t>(member)].send_address + at,
                 count * reduction_.element_bytes);
    return to;
  }

  const Context& context_;
  CrossMemory& memory_;
  const std::vector<Offer>& offers_;
  const std::byte* send_;
  std::byte* recv_;
  Reduction reduction_;
  std::byte* held_;
  std::byte* incoming_;
};

void reduce_by_kernel(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers,
                      const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
  CrossReduction reduction(context, offers, send, recv, dtype, op);
  const size_t element = dtype_size(dtype);
  const Block block = block_of(count, context.nranks, context.rank);
  const size_t most = kChunkBytes / element;
  for (size_t done = 0; done < block.count; done += most) {
    if (done * element % kCheckBytes == 0) {
      context.wait->check();
      context.cross_memory->check_all_live();
    }
    reduction.reduce_chunk(access, (block.begin + done) * element, std::min(most, block.count - done));
  }
}

// Whether the slots would be as fast at least, and the faster the more is in the way in the caches: the kernel's stores
// first fetch what they overwrite, unless it was just read. Who names this algorithm, or has measured it (the tuner),
// gets it anyway.
bool prefer_slots(const Context& context, const void* send, const void* recv, size_t bytes) {
  const Chooser* chooser = context.chooser;
  const bool asked_for =
      !chooser || chooser->overrides.forced[static_cast<size_t>(Kind::all_reduce)] == Algorithm::cma;
  return !asked_for && send != recv && bytes >= kPastCachesBytes;
}

}  // namespace

void all_reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  Stage stage(context, Stage::Data::inlined);
  MutualAccess access(context);
  const bool by_kernel = !prefer_slots(context, send, recv, count * element);
  const auto offers = exchange_offers(&stage, context, offer_of(context, send, recv, count * element, by_kernel));
  if (all_in_windows(offers)) {
    reduce_in_windows(context, access, offers, count, dtype, op);
  } else if (all_have_addresses(offers)) {
    reduce_by_kernel(context, access, offers, send, recv, count, dtype, op);
  } else {
    stage.finish();
    access.finish();
    return all_reduce_twoshot(context, send, recv, count, dtype, op);
  }
  end_without_slots(&stage, context, count, element);
  access.finish();
}

}  // namespace ccore
