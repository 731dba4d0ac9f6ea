// How ranks whose buffers others reach into by the kernel tell them where these are, and the copies themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/context.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/mutual_access.h"
#include "collectives/shm/stage.h"
#include "transport/shm/cross_memory.h"

namespace ccore {

// To one member; travels as bytes.
struct PartOffer {
  uint64_t address = 0;  // of its part, in this rank's memory
  uint64_t reached = 0;  // 1: the kernel copies from there and to there
  uint64_t result = 0;   // of the root of a reduction: where the result belongs
};
static_assert(sizeof(PartOffer) <= Arena::kInlineBytes, "goes with the first post");

inline PartOffer offer_of(const Stage& stage, int member) {
  PartOffer offer;
  std::memcpy(&offer, stage.inlined_of(member), sizeof offer);
  return offer;
}

// The first post of the stage: offered(member) is this rank's part for that one, all of them in one buffer; result: of
// as many bytes, or null. Returns whether the kernel reaches them.
template <typename Offered>
bool post_offers(Stage* stage, const Context& context, Offered offered, const void* result = nullptr) {
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;
  for (int member = 0; member < context.nranks; ++member) {
    if (!stage->meets(member)) continue;
    const Leaving part = offered(member);
    if (part.bytes == 0) continue;
    if (!first || part.at < first) first = part.at;
    if (!last || part.at + part.bytes - 1 > last) last = part.at + part.bytes - 1;
  }
  const auto* output = static_cast<const std::byte*>(result);
  bool reached = true;
  if (first && output) {
    reached = kernel_copies({first, last, output, output + (last - first)});
  } else if (first) {
    reached = kernel_copies({first, last});
  }
  stage->post_inlined([&](int member, std::byte* to) {
    const PartOffer offer{reinterpret_cast<uint64_t>(offered(member).at), reached ? uint64_t{1} : 0,
                          reinterpret_cast<uint64_t>(result)};
    std::memcpy(to, &offer, sizeof offer);
  });
  return reached;
}

// By member, the addresses that were offered to this rank; 0 at its own place.
inline std::vector<uint64_t> addresses_offered(const Stage& stage, const Context& context) {
  std::vector<uint64_t> addresses;
  for (int member = 0; member < context.nranks; ++member) {
    addresses.push_back(stage.meets(member) ? offer_of(stage, member).address : 0);
  }
  return addresses;
}

// What all that this rank meets have said.
inline bool all_reached(const Stage& stage, const Context& context) {
  for (int member = 0; member < context.nranks; ++member) {
    if (stage.meets(member) && offer_of(stage, member).reached == 0) return false;
  }
  return true;
}

// Copies from a member's buffer, and to it, in sections.
void fetch(const Context& context, const MutualAccess& access, int member, std::byte* to, uint64_t from, size_t bytes);
void deliver(const Context& context, const MutualAccess& access, int member, uint64_t to, const std::byte* from,
             size_t bytes);

}  // namespace ccore
