#include "collectives/subgroup.h"

#include <algorithm>
#include <utility>

#include "transport/shm/arena.h"

namespace ccore {

Subgroup::Subgroup(const Context& whole, std::vector<int> members) : members_(std::move(members)), context_(whole) {
  const auto self = std::find(members_.begin(), members_.end(), whole.rank);
  context_.rank = static_cast<int>(self - members_.begin());
  context_.nranks = static_cast<int>(members_.size());
  context_.divisor = static_cast<int>(whole.average_over());
  context_.members = &members_;
  context_.places = nullptr;
  context_.chooser = nullptr;
  context_.order = nullptr;
  const auto shares = [&](int rank) { return whole.node_arena && whole.node_arena->local_of(rank) >= 0; };
  context_.arena = std::all_of(members_.begin(), members_.end(), shares) ? whole.node_arena : nullptr;
  context_.link = [this, &whole](int member) -> Link& { return whole.link(context_.rank_of(member)); };
  context_.has_left = [this, &whole](int member) { return whole.has_left(context_.rank_of(member)); };
  if (whole.is_gone) context_.is_gone = [this, &whole](int member) { return whole.is_gone(context_.rank_of(member)); };
}

}  // namespace ccore
