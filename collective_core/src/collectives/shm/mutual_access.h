// While ranks reach into each other's buffers: one that leaves by an error keeps the others out first, so that its
// caller has the buffers for himself.
//
// A rank reaches into others only inside a section, which it begins by a look at who has left. One that leaves says so,
// then waits for the sections that it finds begun; later ones see it. What a rank reads in a section is for the same
// reason what its owner put there, and no rank ends with success on a sum of anything else.
//
// The wait has an end (kLeaveMs), because a rank may be stopped inside its section, and the deadline of an operation
// holds whatever the others do. When that rank goes on it looks once more before it writes. What remains is a rank that
// is stopped between this look and its write, some nanoseconds; for memory that is mapped, between the look and the
// last of its stores.
#pragma once

#include <cstdint>

#include "collectives/context.h"
#include "common/error.h"

namespace ccore {

// Not a cause: what that rank has to say of its error comes, and later than its leaving.
class LeftOperation : public Error {
 public:
  explicit LeftOperation(int rank)
      : Error(CC_ERROR_REMOTE, format("rank %d has left the operation after an error", rank)) {}
};

class MutualAccess {
 public:
  static constexpr int64_t kLeaveMs = 500;

  // context.arena is not null, and outlives this. To be made before the others know where this rank's buffers are.
  explicit MutualAccess(const Context& context) : context_(context) {}
  // Leaves, unless it is finished.
  ~MutualAccess();
  MutualAccess(const MutualAccess&) = delete;
  MutualAccess& operator=(const MutualAccess&) = delete;
  // No member reaches into this rank's buffers any more.
  void finish() { finished_ = true; }

  class Section {
   public:
    // Throws CC_ERROR_REMOTE if a member has left.
    explicit Section(const MutualAccess& access);
    ~Section() { end(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    // The same look again: after long work, before a write.
    void check() const { access_.check(); }

   private:
    void end() const;
    const MutualAccess& access_;
  };

 private:
  void check() const;
  void leave() const;

  const Context& context_;
  bool finished_ = false;
};

}  // namespace ccore
