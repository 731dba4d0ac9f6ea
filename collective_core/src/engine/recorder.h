// The flight recorder of a communicator: its last operations one by one, and sums over all of them. Written by the
// thread that runs operations, one at a time; read by any thread at any moment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
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
  // algorithm: as in update(). way: of an operation on device memory, its name; else null.
  void end(uint64_t ticket, cc_result result, int64_t end_ns, Algorithm algorithm = Algorithm::none,
           const char* way = nullptr);
  // Of a receive from any rank, once its sender is known.
  void set_source(uint64_t ticket, int rank);

  // Oldest first.
  std::vector<cc_trace_entry> recent() const;
  cc_op_stats stats(cc_operation operation) const;
  // In the order in which they came up.
  std::vector<cc_count> counts() const;

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

  // How often an operation of one size ran by one algorithm.
  struct CountKey {
    int32_t operation = 0;
    int32_t rounded = 0;
    uint64_t bytes = 0;
    std::array<char, sizeof(cc_count::algorithm)> algorithm{};

    bool operator==(const CountKey& other) const {
      return operation == other.operation && rounded == other.rounded && bytes == other.bytes &&
             algorithm == other.algorithm;
    }
  };
  struct HashOfKey {
    size_t operator()(const CountKey& key) const;
  };
  struct CountRow {
    CountKey key;  // written before a reader can see the row
    Sums sums;
  };
  static constexpr size_t kChunkRows = 64;
  using Chunk = std::array<CountRow, kChunkRows>;
  // More than there are kinds, classes of sizes and algorithms, so that rounded sizes always have room.
  static constexpr size_t kChunks = 1024;

  static void note(cc_trace_entry* entry, Algorithm algorithm);
  // The entry of a ticket, or null when a later one has taken its place.
  cc_trace_entry* own(uint64_t ticket);
  void publish(uint64_t ticket);
  void count(const cc_trace_entry& ended);
  static void add_to(Sums* sums, const cc_trace_entry& ended, uint64_t bytes);
  CountRow* row_of(const cc_trace_entry& ended, uint64_t bytes);
  CountRow* new_row(const CountKey& key);

  uint64_t last_ticket_ = 0;
  std::array<cc_trace_entry, CC_TRACE_ENTRIES> entries_{};  // the writer's own copy
  // By ticket, those that run though a later one has taken their place: a group may have any number of transfers.
  std::map<uint64_t, cc_trace_entry> displaced_;
  std::array<Slot, CC_TRACE_ENTRIES> slots_;
  std::array<Sums, kOperations> sums_;
  std::unordered_map<CountKey, CountRow*, HashOfKey> rows_;  // of the writer
  CountRow* last_row_ = nullptr;  // of the writer: programs call the same sizes again and again
  std::array<std::unique_ptr<Chunk>, kChunks> chunks_;
  std::atomic<size_t> used_rows_{0};  // of chunks_; released after a row is written
};

// One entry in words: "operation 7: all_reduce(count=10, f32, sum) by ring, 0.012 ms, success".
std::string describe(const cc_trace_entry& entry, int64_t now_ns);

}  // namespace ccore
