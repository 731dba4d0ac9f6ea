// How many calls of each function collective_core took, and how many it passed to NCCL.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ccore_nccl {

enum class Function { all_reduce, all_gather, reduce_scatter, broadcast, send, recv };
constexpr size_t kFunctions = 6;

// The name of NCCL's interface: "ncclAllReduce".
const char* name_of(Function function);

struct Totals {
  uint64_t taken = 0, taken_bytes = 0, passed = 0, passed_bytes = 0;
};

// Over all threads so far.
Totals totals_of(Function function);

// The counts of one thread. Only this thread writes them, so that no count needs a locked instruction: such an
// instruction waits for all stores before it, which costs more than the rest of a passed call.
struct ThreadCounts {
  struct Row {
    std::atomic<uint64_t> taken{0}, taken_bytes{0}, passed{0}, passed_bytes{0};
  };
  Row rows[kFunctions];
  std::atomic<bool> owned{true};
  ThreadCounts* next = nullptr;
};

ThreadCounts* new_thread_counts();

inline ThreadCounts::Row& counts_of(Function function) {
  static thread_local ThreadCounts* own __attribute__((tls_model("initial-exec"))) = nullptr;
  if (own == nullptr) own = new_thread_counts();
  return own->rows[static_cast<size_t>(function)];
}

inline void add(std::atomic<uint64_t>* to, uint64_t more) {
  to->store(to->load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

inline void count_taken(Function function, size_t bytes) {
  ThreadCounts::Row& row = counts_of(function);
  add(&row.taken, 1);
  add(&row.taken_bytes, bytes);
}

inline void count_passed(Function function, size_t bytes) {
  ThreadCounts::Row& row = counts_of(function);
  add(&row.passed, 1);
  add(&row.passed_bytes, bytes);
}

}  // namespace ccore_nccl
