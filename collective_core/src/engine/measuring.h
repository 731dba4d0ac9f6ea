// What a communicator measures of its algorithms: in front of the first operation of each collective and group of sizes,
// unless this process or the file of an earlier one has it. So a communicator that is made costs nothing more, and what is
// never called is never measured.
//
// All ranks come to the same choices: the times are the slowest rank's, exchanged as a part of the operation, and what is
// known already comes from rank 0.
#pragma once

#include <cstdint>

#include "collectives/choose.h"
#include "collectives/context.h"
#include "collectives/measured.h"
#include "engine/timing_store.h"

namespace ccore {

class Measuring {
 public:
  // wanted: the same on all ranks, as all else here. roomy: every rank has a core of its own. keep: in a file, for other
  // jobs.
  Measuring(bool wanted, bool roomy, bool keep) : wanted_(wanted), roomy_(roomy), keep_(keep) {}

  // Whether to measure in front of this operation. Called for every one: what was measured is verified again now and then.
  bool due(const Operation& operation, const Chooser& chooser);
  // Measures, as a part of the operation. identity: of rank 0's machine and these ranks; what it does is called once.
  template <typename Identity>
  void run(const Context& context, const Chooser& chooser, Identity identity) {
    if (asked_ == 0 && context.rank == 0) identity_ = identity();
    measure_for(context, chooser);
  }
  const Measured& measured() const { return measured_; }
  // On rank 0, at the end: what was measured goes into the file.
  void save();

 private:
  struct Target {
    Kind kind;
    SizeGroup group;
    uint32_t bit;
  };
  static bool target_of(const Operation& operation, const Chooser& chooser, Target* target);
  void measure_for(const Context& context, const Chooser& chooser);
  void ask_rank_0(const Context& context, const Target& target);
  std::vector<Timing> known_of(const Target& target, int nranks) const;

  bool wanted_;
  bool roomy_;
  bool keep_;
  uint32_t asked_ = 0;  // a bit for each target that rank 0 was asked for: another communicator may have measured it
  uint32_t ready_ = 0;  // a bit for each target that needs no more here
  uint32_t operations_ = 0;  // of little data since it was last verified
  uint32_t settled_ = 0;  // as in KnownTimings
  bool doubted_ = false;  // what an earlier process has measured did not hold
  CacheIdentity identity_;
  Measured measured_;
};

}  // namespace ccore
