// A part of the ranks as a world of its own: any collective runs in it as one stage of a larger one.
#pragma once

#include <vector>

#include "collectives/context.h"

namespace ccore {

class Subgroup {
 public:
  // members: ranks of `whole` in the order in which the stage numbers them; this rank is one of them. `whole`
  // must outlive the subgroup, and is itself no subgroup.
  Subgroup(const Context& whole, std::vector<int> members);
  Subgroup(const Subgroup&) = delete;
  Subgroup& operator=(const Subgroup&) = delete;

  // rank and nranks are those of the stage; an average still divides by the ranks of the whole.
  const Context& context() const { return context_; }

 private:
  std::vector<int> members_;
  Context context_;
};

}  // namespace ccore
