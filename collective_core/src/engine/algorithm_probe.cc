#include "engine/algorithm_probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "collectives/all_gather/all_gather.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/all_to_all/all_to_all.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/gather/gather.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce_scatter/reduce_scatter.h"
#include "collectives/scatter/scatter.h"
#include "common/clock.h"

namespace ccore {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kMuchPoint = 4 * kMiB;
constexpr size_t kVastPoint = 16 * kMiB;

constexpr std::initializer_list<size_t> kLittleOverLinks = {64 * kKiB, 8 * kKiB, 512 * kKiB};
constexpr std::initializer_list<size_t> kSeveralOverLinks = {32 * kKiB, 8 * kKiB, 2 * kKiB};
constexpr std::initializer_list<size_t> kMuchOverLinks = {kMuchPoint};

void add(std::vector<ProbePoint>* points, Kind kind, Algorithm algorithm, std::initializer_list<size_t> sizes) {
  for (const size_t bytes : sizes) points->push_back(ProbePoint{kind, algorithm, bytes});
}

// One meeting, where lines are taken over and where they are not; what comes after them goes by what has shown better.
void add_both_ways(std::vector<ProbePoint>* points, Kind kind, size_t bytes, int nranks) {
  points->push_back(ProbePoint{kind, Algorithm::oneshot, bytes});
  // Of what every rank gets, more than one other reads each line.
  const bool alike = kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::all_gather;
  if (nranks == 2 || !alike) points->push_back(ProbePoint{kind, Algorithm::oneshot, bytes, Way::shared_lines});
}

// What may be faster than slots for some sizes, as a rank that only writes can be farther ahead. None where it would add
// in another order than slots: what was measured must not decide which bits a sum has.
Algorithm over_byte_rings(Kind kind, int nranks) {
  switch (kind) {
    case Kind::broadcast:
      return Algorithm::tree;
    case Kind::gather:
    case Kind::scatter:
      return Algorithm::direct;
    case Kind::reduce:
      return nranks == 2 ? Algorithm::tree : Algorithm::none;
    case Kind::reduce_scatter:
      return nranks == 2 ? Algorithm::ring : Algorithm::none;
    default:
      return Algorithm::none;
  }
}

// Memory with its pages, so that no measured run pays for them. It lies as what programs allocate does: not from a
// boundary of a huge page on, for which the kernel would give a whole one.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes + kLead) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  }
  ~Scratch() {
    if (there()) munmap(memory_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool there() const { return memory_ != MAP_FAILED; }
  std::byte* at() const { return static_cast<std::byte*>(memory_) + kLead; }

 private:
  static constexpr size_t kLead = 4096 + 64;
  size_t bytes_;
  void* memory_;
};

bool has_root(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::gather || kind == Kind::scatter;
}

// The largest over all ranks of each.
void agree(const Context& context, std::vector<float>* values) {
  const Algorithm algorithm = context.arena ? Algorithm::oneshot : Algorithm::doubling;
  all_reduce_by(algorithm, context, values->data(), values->data(), values->size(), CC_FLOAT32, CC_MAX);
}

void call(const Context& context, const ProbePoint& point, const void* send, void* recv) {
  const auto p = static_cast<size_t>(context.nranks);
  const size_t count = point.bytes / sizeof(float);
  const size_t part = count / p;
  const size_t part_bytes = part * sizeof(float);
  switch (point.kind) {
    case Kind::all_reduce:
      return all_reduce_by(point.algorithm, context, send, recv, count, CC_FLOAT32, CC_SUM);
    case Kind::reduce:
      return reduce_by(point.algorithm, context, send, recv, count, CC_FLOAT32, CC_SUM, 0);
    case Kind::broadcast:
      return broadcast_by(point.algorithm, context, recv, recv, point.bytes, 0);
    case Kind::reduce_scatter:
      return reduce_scatter_by(point.algorithm, context, send, recv, part, CC_FLOAT32, CC_SUM);
    case Kind::gather:
      return gather_by(point.algorithm, context, send, recv, part_bytes, 0);
    case Kind::scatter:
      return scatter_by(point.algorithm, context, send, recv, part_bytes, 0);
    case Kind::all_to_all:
      return all_to_all_by(point.algorithm, context, send, recv, part_bytes);
    default: {
      std::vector<Block> blocks;
      for (size_t rank = 0; rank < p; ++rank) blocks.push_back(Block{rank * part_bytes, part_bytes});
      return all_gather_by(point.algorithm, context, send, recv, blocks);
    }
  }
}

// This rank's time for one call: the least mean of a few rows of calls.
double time_of(const Context& whole, const ProbePoint& point, bool takes_over, const void* send, void* recv) {
  // Who is asked for an algorithm by its name does not think better of it.
  Chooser forced = *whole.chooser;
  if (forced.chosen) *forced.chosen = point.algorithm;  // so that a rank which waits here can say in what
  forced.overrides.forced[static_cast<size_t>(point.kind)] = point.algorithm;
  forced.chosen = nullptr;
  Context context = whole;
  context.chooser = &forced;
  context.past_caches_bytes = point.way == Way::past_caches ? 0 : std::numeric_limits<size_t>::max();
  context.takes_over = takes_over;
  // A last-level cache that takes what others evict has settled after some runs of what it hardly holds.
  const int rows = point.bytes < kMuchBytes ? 3 : point.bytes < kVastBytes ? 8 : 2;
  // With a root, the other ranks may be in the next call before the root is.
  const int few = has_root(point.kind) && point.bytes < kVastBytes ? 3 : 1;
  const int calls = over_links_of_several(whole.chooser->shape) ? 4
                    : point.bytes <= 8 * kKiB                   ? 16
                    : point.bytes <= 64 * kKiB                  ? 4
                                                                : few;
  double least_us = std::numeric_limits<double>::max();
  if (point.bytes < kMuchBytes) call(context, point, send, recv);
  for (int row = 0; row < rows; ++row) {
    std::vector<float> nothing(1);
    agree(context, &nothing);  // all begin together
    const int64_t start_ns = now_ns();
    for (int i = 0; i < calls; ++i) call(context, point, send, recv);
    least_us = std::min(least_us, static_cast<double>(now_ns() - start_ns) / 1000 / calls);
  }
  return least_us;
}

}  // namespace

std::vector<ProbePoint> probe_plan(Kind kind, SizeGroup group, const Shape& shape) {
  std::vector<ProbePoint> points;
  if (!shape.shared) {
    // Algorithms that make the same sums: of two ranks all, of more ranks these two.
    const bool several = over_links_of_several(shape);
    if (kind != Kind::all_reduce || group == SizeGroup::vast || (several && group != SizeGroup::little)) return points;
    for (const Algorithm one : {Algorithm::doubling, several ? Algorithm::halving : Algorithm::ring}) {
      add(&points, kind, one,
          several                      ? kSeveralOverLinks
          : group == SizeGroup::little ? kLittleOverLinks
                                       : kMuchOverLinks);
    }
    return points;
  }
  const bool in_blocks = kind == Kind::all_reduce || kind == Kind::reduce;
  const Algorithm slots = in_blocks ? Algorithm::twoshot : Algorithm::oneshot;
  const Algorithm rings = over_byte_rings(kind, shape.nranks);
  if (group == SizeGroup::vast) {
    points = {{kind, slots, kVastPoint}, {kind, slots, kVastPoint, Way::past_caches}};
    add(&points, kind, Algorithm::cma, {kVastPoint});
  } else if (group == SizeGroup::much) {
    points = {{kind, slots, kMuchPoint}, {kind, slots, kMuchPoint, Way::past_caches}, {kind, slots, kMuchBytes}};
    add(&points, kind, Algorithm::cma, {kMuchBytes, kMuchPoint});
    if (kind == Kind::reduce) add(&points, kind, Algorithm::oneshot, {kMuchBytes, kMuchPoint});
    if (rings != Algorithm::none) add(&points, kind, rings, {kMuchBytes, kMuchPoint});
  } else if (kind == Kind::all_reduce) {
    add(&points, kind, slots, {64 * kKiB, 2 * kKiB, 8 * kKiB, 256 * kKiB, kMiB});
    add_both_ways(&points, kind, 8 * kKiB, shape.nranks);
    add(&points, kind, Algorithm::oneshot, {2 * kKiB});
    add(&points, kind, Algorithm::cma, {64 * kKiB, 256 * kKiB, kMiB});
  } else {
    add_both_ways(&points, kind, 32 * kKiB, shape.nranks);
    add(&points, kind, Algorithm::oneshot, {2 * kKiB, 8 * kKiB, 128 * kKiB, 512 * kKiB});
    if (in_blocks) add(&points, kind, slots, {2 * kKiB, 8 * kKiB, 64 * kKiB, 512 * kKiB});
    add(&points, kind, Algorithm::cma, {16 * kKiB, 128 * kKiB, 512 * kKiB});
    if (rings != Algorithm::none) add(&points, kind, rings, {4 * kKiB, 32 * kKiB, 256 * kKiB});
  }
  if (!shape.crossed) {
    const auto by_kernel = [](const ProbePoint& point) { return point.algorithm == Algorithm::cma; };
    points.erase(std::remove_if(points.begin(), points.end(), by_kernel), points.end());
  }
  return points;
}

std::vector<Timing> measure(const Context& context, const std::vector<ProbePoint>& points) {
  size_t most = 0;
  for (const ProbePoint& point : points) most = std::max(most, point.bytes);
  const Scratch send(most);
  const Scratch recv(most);
  std::vector<float> lacking = {send.there() && recv.there() ? 0.0F : 1.0F};
  agree(context, &lacking);
  if (lacking.front() != 0) return {};
  std::vector<float> us;
  bool takes_over = context.takes_over || points.front().bytes < kMuchBytes;
  for (const ProbePoint& point : points) {
    const bool taken = takes_over && point.way != Way::shared_lines;
    us.push_back(static_cast<float>(time_of(context, point, taken, send.at(), recv.at())));
    if (point.way != Way::shared_lines) continue;
    std::vector<float> both(us.end() - 2, us.end());  // the one before is the same, taken over
    agree(context, &both);
    takes_over = both[0] < both[1];
  }
  agree(context, &us);
  std::vector<Timing> timings;
  for (size_t i = 0; i < points.size(); ++i) {
    const ProbePoint& point = points[i];
    const size_t blocks = point.kind == Kind::all_to_all ? static_cast<size_t>(context.nranks) : 1;
    Timing timing;
    timing.kind = static_cast<uint8_t>(point.kind);
    timing.algorithm = static_cast<int8_t>(point.algorithm);
    timing.way = point.way;
    timing.bytes = static_cast<uint32_t>(point.bytes * blocks);
    timing.us = us[i];
    timings.push_back(timing);
  }
  return timings;
}

}  // namespace ccore
