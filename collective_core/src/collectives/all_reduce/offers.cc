#include "collectives/all_reduce/offers.h"

#include <algorithm>
#include <cstring>

#include "schedule/schedule.h"
#include "transport/shm/cross_memory.h"

namespace ccore {
namespace {

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
    if (member != context.rank) std::memcpy(&offers[static_cast<size_t>(member)], stage->inlined_of(member), sizeof own);
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

}  // namespace ccore
