#include "engine/measuring.h"

#include <algorithm>

#include "collectives/all_gather/all_gather.h"
#include "collectives/broadcast/broadcast.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/algorithm_probe.h"
#include "engine/tuning.h"

namespace ccore {
namespace {

// A machine whose clock, cores or caches are not what they were differs by more; a loaded one may too, and is measured
// again.
constexpr float kSameMachine = 1.4F;

// Ranks beyond that meet through memory that no cache holds, and a timing has 32 bits for its bytes.
constexpr int kMostMeasuredRanks = 128;

// Operations, so that all ranks count alike. The cores of a virtual machine are moved, nearer to each other or farther
// away, while it runs.
constexpr uint32_t kVerifyAfter = 1 << 16;
constexpr uint32_t kLittleBits = 0x249249;  // every third: of each collective the group SizeGroup::little
static_assert(static_cast<int>(SizeGroup::little) == 0 && kSizeGroups == 3, "as kLittleBits has it");

// cpu_reduce reduces chunk by chunk.
uint64_t reduced_at_once(const Operation& operation) {
  return std::min(operation.count, operation.shape) * dtype_size(static_cast<cc_dtype>(operation.dtype));
}

// What links have carried is counted for programs, which did not ask for this.
class UncountedPayload {
 public:
  explicit UncountedPayload(const Context& context) : context_(context) {
    for (int rank = 0; rank < context.nranks; ++rank) {
      if (rank == context.rank) continue;
      const Link& link = context.link(rank);
      before_.push_back({link.payload_bytes_sent, link.payload_bytes_received});
    }
  }
  ~UncountedPayload() {
    auto before = before_.begin();
    for (int rank = 0; rank < context_.nranks; ++rank) {
      if (rank == context_.rank) continue;
      Link& link = context_.link(rank);
      link.payload_bytes_sent = before->sent;
      link.payload_bytes_received = before->received;
      ++before;
    }
  }
  UncountedPayload(const UncountedPayload&) = delete;
  UncountedPayload& operator=(const UncountedPayload&) = delete;

 private:
  struct Counts {
    uint64_t sent;
    uint64_t received;
  };
  const Context& context_;
  std::vector<Counts> before_;
};

bool still_holds(const std::vector<Timing>& known, const std::vector<Timing>& now) {
  return std::any_of(known.begin(), known.end(), [&](const Timing& old) {
    if (now.empty() || !old.same_point(now.front())) return false;
    const float ratio = now.front().us / old.us;
    return ratio < kSameMachine && ratio > 1 / kSameMachine;
  });
}

}  // namespace

bool Measuring::target_of(const Operation& operation, const Chooser& chooser, Target* target) {
  const bool in_chunks = operation.kind == Kind::cpu_reduce;
  const int nranks = chooser.shape.nranks;
  target->kind = in_chunks ? Kind::all_reduce : operation.kind;
  if (operation.kind == Kind::all_gatherv) target->kind = Kind::all_gather;
  // Others, such as topk_all_reduce, have one algorithm, and no place in the tables by kind.
  constexpr Kind kinds[] = {Kind::all_reduce,     Kind::reduce, Kind::broadcast, Kind::all_gather,
                            Kind::reduce_scatter, Kind::gather, Kind::scatter,   Kind::all_to_all};
  const auto place = std::find(std::begin(kinds), std::end(kinds), target->kind) - std::begin(kinds);
  if (place == std::end(kinds) - std::begin(kinds)) return false;
  const uint64_t bytes = in_chunks ? reduced_at_once(operation) : data_bytes(operation, nranks);
  const size_t buffer = largest_buffer(target->kind, bytes, nranks);
  if (buffer < kLeastMeasuredBytes || nranks > kMostMeasuredRanks) return false;
  if (chooser.overrides.forced[static_cast<size_t>(target->kind)] != Algorithm::none) return false;
  const bool few_bytes =
      over_links_of_several(chooser.shape) ? bytes <= kMostMeasuredOverLinks : chooser.shape.nodes == 1;
  const bool over_links = few_bytes && !chooser.shape.linked && chooser.overrides.between == Algorithm::none;
  if (!chooser.shape.shared && !over_links) return false;
  target->group = size_group(buffer);
  // Over links, what is past the caches of the ranks is past those of the kernel too.
  if (!chooser.shape.shared && target->group == SizeGroup::vast) target->group = SizeGroup::much;
  target->bit = uint32_t{1} << (place * kSizeGroups + static_cast<int>(target->group));
  return true;
}

bool Measuring::due(const Operation& operation, const Chooser& chooser) {
  Target target{};
  // In shared memory, ranks that share cores would time the scheduler of the kernel instead of the algorithms.
  if (!wanted_ || !(roomy_ || over_links_of_several(chooser.shape))) return false;
  if (!target_of(operation, chooser, &target)) return false;
  if (target.group == SizeGroup::little && ++operations_ >= kVerifyAfter) {
    operations_ = 0;
    ready_ &= ~kLittleBits;
    settled_ &= ~kLittleBits;
    doubted_ = false;
  }
  return (ready_ & target.bit) == 0;
}

void Measuring::ask_rank_0(const Context& context, const Target& target) {
  KnownTimings known;
  if (context.rank == 0) known = TimingStore::instance().get(identity_, keep_);
  if (context.arena) {
    broadcast_oneshot(context, &known, &known, sizeof known, 0);
  } else {
    // Every rank sends: one that is in another call finds out by it.
    known = gather_all(context, known).front();
  }
  if (known.count > kMostTimings) throw Error(CC_ERROR_INTERNAL, "rank 0 sent too many timings");
  settled_ |= known.settled & target.bit;
  measured_.put(std::vector<Timing>(known.timings, known.timings + known.count), context.nranks);
  asked_ |= target.bit;
}

std::vector<Timing> Measuring::known_of(const Target& target, int nranks) const {
  std::vector<Timing> found;
  for (const Timing& one : measured_.timings()) {
    const auto kind = static_cast<Kind>(one.kind);
    if (kind == target.kind && size_group(largest_buffer(kind, one.bytes, nranks)) == target.group) {
      found.push_back(one);
    }
  }
  return found;
}

void Measuring::measure_for(const Context& context, const Chooser& chooser) {
  Target target{};
  if (!target_of(context.operation, chooser, &target)) return;
  ready_ |= target.bit;
  const std::vector<ProbePoint> plan = probe_plan(target.kind, target.group, chooser.shape);
  if (plan.empty()) return;
  const UncountedPayload uncounted(context);
  if (chooser.chosen) *chooser.chosen = plan.front().algorithm;
  if ((asked_ & target.bit) == 0) ask_rank_0(context, target);
  if ((settled_ & target.bit) != 0) return;
  const std::vector<Timing> known = known_of(target, context.nranks);
  bool verified = known.size() == plan.size() && !doubted_;
  // Only of little data: much takes long, and its memory does not change as the ways between cores of virtual machines do.
  if (verified && target.group == SizeGroup::little) {
    verified = still_holds(known, measure(context, {plan.front()}));
    doubted_ = !verified;
  }
  // Much is measured in the way in which little is used, which has to be known first.
  const Target little{target.kind, SizeGroup::little, 0};
  if (!verified && target.group != SizeGroup::little && known_of(little, context.nranks).empty()) {
    measured_.put(measure(context, probe_plan(target.kind, SizeGroup::little, chooser.shape)), context.nranks);
  }
  Context used = context;
  used.takes_over = measured_.takes_over(target.kind);
  if (!verified) measured_.put(measure(used, plan), context.nranks);
  settled_ |= target.bit;
  if (context.rank == 0) TimingStore::instance().put(identity_, measured_.timings(), target.bit, !verified);
}

void Measuring::save() {
  if (asked_ != 0 && keep_) TimingStore::instance().save(identity_);
}

}  // namespace ccore
