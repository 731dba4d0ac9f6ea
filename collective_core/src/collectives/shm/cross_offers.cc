#include "collectives/shm/cross_offers.h"

#include <algorithm>

#include "common/error.h"

namespace ccore {
namespace {

// What is copied before others who wait to leave are let go. A peer that fails is noticed after so many bytes at the
// latest.
constexpr size_t kSectionBytes = 256 * 1024;
constexpr size_t kCheckBytes = 1024 * 1024;

// Another rank than that member may have ended, and well, with its own part of the operation done.
template <typename Copy>
void in_sections(const Context& context, const MutualAccess& access, int member, size_t bytes, Copy copy) {
  for (size_t done = 0; done < bytes; done += kSectionBytes) {
    if (done % kCheckBytes == 0) {
      context.wait->check();
      const int rank = context.rank_of(member);
      if (!context.cross_memory->lives(rank)) throw Error(CC_ERROR_REMOTE, format("rank %d died", rank));
    }
    const MutualAccess::Section inside(access);
    copy(inside, done, std::min(kSectionBytes, bytes - done));
  }
}

}  // namespace

void fetch(const Context& context, const MutualAccess& access, int member, std::byte* to, uint64_t from, size_t bytes) {
  // With this the operation may be over for this rank: what it has read must be what was there before anybody left.
  in_sections(context, access, member, bytes, [&](const MutualAccess::Section& inside, size_t at, size_t n) {
    context.cross_memory->read(context.rank_of(member), to + at, from + at, n);
    inside.check();
  });
}

// The look at the begin of a section is just before the write.
void deliver(const Context& context, const MutualAccess& access, int member, uint64_t to, const std::byte* from,
             size_t bytes) {
  in_sections(context, access, member, bytes, [&](const MutualAccess::Section&, size_t at, size_t n) {
    context.cross_memory->write(context.rank_of(member), to + at, from + at, n);
  });
}

}  // namespace ccore
