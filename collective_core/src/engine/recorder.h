// The flight recorder of a communicator: its last operations one by one, and sums over all of them. Written by the
// thread that runs operations, one at a time; read by any thread at any moment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/algorithm.h"
#include "collectives/operation.h"
#include "common/clock.h"

namespace ccore {

class Recorder {
 public:
  // sends: of a transfer, whether it leaves this rank. elements: those of the caller. Returns a ticket.
  uint64_t begin(const Operation& operation, bool sends, uint64_t elements, int64_t start_ns);
  // The algorithm that was chosen, and the rank that is waited for; none and -1: no news.
  void update(uint64_t ticket, Algorithm algorithm, int waits_for);
  // algorithm: as in update().
  void end(uint64_t ticket, cc_result result, int64_t end_ns, Algorithm algorithm = Algorithm::none);
  // Of a receive from any rank, once its sender is known.
  void set_source(uint64_t ticket, int rank);

  // Oldest first.
  std::vector<cc_trace_entry> recent() const;
  cc_op_stats stats(cc_operation operation) const;

 private:
  static constexpr size_t kWords = sizeof(cc_trace_entry) / sizeof(uint64_t);
  static_assert(sizeof(cc_trace_entry) % sizeof(uint64_t) == 0, "copied word by word");
  // Odd version: it is being written. Every word is released after the odd and before the even number, so a reader
  // that sees the same even number before and after its look saw one entry.
  struct Slot {
    std::atomic<uint64_t> version{0};
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  struct Sums {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> errors{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> total_ns{0};
    std::atomic<uint64_t> longest_ns{0};
  };
  static constexpr size_t kOperations = 64;

  static void note(cc_trace_entry* entry, Algorithm algorithm);
  // The entry of a ticket, or null when a later one has taken its place.
  cc_trace_entry* own(uint64_t ticket);
  void publish(uint64_t ticket);
  void count(const cc_trace_entry& ended);

  uint64_t last_ticket_ = 0;
  std::array<cc_trace_entry, CC_TRACE_ENTRIES> entries_{};  // the writer's own copy
  // By ticket, those that run though a later one has taken their place: a group may have any number of transfers.
  std::map<uint64_t, cc_trace_entry> displaced_;
  std::array<Slot, CC_TRACE_ENTRIES> slots_;
  std::array<Sums, kOperations> sums_;
};

// One entry in words: "operation 7: all_reduce(count=10, f32, sum) by ring, 0.012 ms, success".
std::string describe(const cc_trace_entry& entry, int64_t now_ns);

}  // namespace ccore
