#include "collectives/all_reduce/all_reduce.h"

#include <cstring>
#include <utility>
#include <vector>

#include "collectives/all_reduce/without_slots.h"
#include "collectives/shm/cross_fold.h"
#include "collectives/shm/mutual_access.h"
#include "common/caches.h"
#include "common/dtype.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

void reduce_by_kernel(const Context& context, const MutualAccess& access, const std::vector<Offer>& offers,
                      const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) {
  const size_t element = dtype_size(dtype);
  const Reduction reduction{reduce_function(dtype, op), last_reduce_function(dtype, op), element};
  std::vector<uint64_t> inputs;
  for (const Offer& offer : offers) inputs.push_back(offer.send_address);
  CrossFold fold(context, std::move(inputs), send, reduction);
  auto* output = static_cast<std::byte*>(recv);
  // In place, the own part of a rank after the second would be gone before its turn. Of this block no other rank reads or
  // writes anything, so the others may reduce in place.
  const bool in_output = !(send == recv && context.rank >= 2);
  const Block block = block_of(count, context.nranks, context.rank);
  for_each_chunk(context, block.count, element, [&](size_t first, size_t n) {
    const MutualAccess::Section inside(access);
    const size_t at = (block.begin + first) * element;
    const std::byte* sum = fold.fold(at, n, in_output ? output + at : nullptr);
    if (!in_output) std::memcpy(output + at, sum, n * element);
    inside.check();
    // Each rank begins with another one: they do not crowd at the first.
    for (int step = 1; step < context.nranks; ++step) {
      const int member = (context.rank + step) % context.nranks;
      const uint64_t there = offers[static_cast<size_t>(member)].recv_address + at;
      context.cross_memory->write(context.rank_of(member), there, sum, n * element);
    }
  });
}

constexpr size_t kSlotsBytes = 2 * kPastCachesBytes;

// Whether the slots would be as fast at least, and the faster the more is in the way in the caches: the kernel's stores
// first fetch what they overwrite, unless it was just read. Who names this algorithm, or has measured it,
// gets it anyway.
bool prefer_slots(const Context& context, const void* send, const void* recv, size_t bytes) {
  const Chooser* chooser = context.chooser;
  if (!chooser || chooser->overrides.forced[static_cast<size_t>(Kind::all_reduce)] == Algorithm::cma) return false;
  const Measured* measured = chooser->model.measured;
  return !(measured && measured->has(Kind::all_reduce)) && send != recv && bytes >= kSlotsBytes;
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
