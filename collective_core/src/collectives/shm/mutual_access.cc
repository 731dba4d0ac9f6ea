#include "collectives/shm/mutual_access.h"

#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "transport/shm/arena.h"
#include "transport/shm/cross_memory.h"

namespace ccore {
namespace {

int local_of(const Context& context, int member) { return context.arena->local_of(context.rank_of(member)); }

Access& access_of(const Context& context, int member) { return context.arena->access(local_of(context, member)); }

}  // namespace

// One order of all these loads and stores: either this rank sees that the other has left, or the other, which looks at
// the sections after it has said so, sees this one.
MutualAccess::Section::Section(const MutualAccess& access) : access_(access) {
  access_of(access.context_, access.context_.rank).sections.fetch_add(1, std::memory_order_seq_cst);
  try {
    check();
  } catch (const Error&) {
    end();
    throw;
  }
}

void MutualAccess::Section::end() const {
  access_of(access_.context_, access_.context_.rank).sections.fetch_add(1, std::memory_order_release);
}

void MutualAccess::check() const {
  for (int member = 0; member < context_.nranks; ++member) {
    if (access_of(context_, member).left.load(std::memory_order_seq_cst) == 0) continue;
    throw LeftOperation(context_.rank_of(member));
  }
}

MutualAccess::~MutualAccess() {
  if (!finished_) leave();
}

void MutualAccess::leave() const {
  access_of(context_, context_.rank).left.store(1, std::memory_order_seq_cst);
  const Deadline patience = Deadline::in_ms(kLeaveMs);
  for (int member = 0; member < context_.nranks; ++member) {
    if (member == context_.rank) continue;
    const auto& sections = access_of(context_, member).sections;
    const uint64_t seen = sections.load(std::memory_order_seq_cst);
    const int rank = context_.rank_of(member);
    const auto inside = [&] {
      return seen % 2 == 1 && sections.load(std::memory_order_acquire) == seen &&
             !(context_.cross_memory && !context_.cross_memory->lives(rank)) &&
             !(context_.is_gone && context_.is_gone(member));
    };
    while (inside() && !patience.passed()) {
      const timespec moment{0, 20000};
      nanosleep(&moment, nullptr);
    }
    if (inside())
      log(LogLevel::warn, "rank %d does not go on, and was about to write into the output of this rank", rank);
  }
}

}  // namespace ccore
