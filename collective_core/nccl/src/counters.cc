#include "counters.h"

#include <array>

namespace ccore_nccl {
namespace {

std::atomic<ThreadCounts*> all{nullptr};

// Hands a thread's counts to the next new thread when the thread ends.
struct Owner {
  ThreadCounts* counts = nullptr;
  ~Owner() {
    if (counts != nullptr) counts->owned.store(false, std::memory_order_release);
  }
};

ThreadCounts* unowned() {
  for (ThreadCounts* one = all.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    bool expected = false;
    if (one->owned.compare_exchange_strong(expected, true, std::memory_order_acquire)) return one;
  }
  return nullptr;
}

}  // namespace

ThreadCounts* new_thread_counts() {
  static thread_local Owner owner;
  owner.counts = unowned();
  if (owner.counts != nullptr) return owner.counts;
  auto* const made = new ThreadCounts;  // never freed: the report at exit reads it
  made->next = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(made->next, made, std::memory_order_release)) {
  }
  owner.counts = made;
  return made;
}

const char* name_of(Function function) {
  constexpr std::array<const char*, kFunctions> names = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                                         "ncclBroadcast", "ncclSend",      "ncclRecv"};
  return names[static_cast<size_t>(function)];
}

Totals totals_of(Function function) {
  Totals sums;
  for (const ThreadCounts* one = all.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    const ThreadCounts::Row& row = one->rows[static_cast<size_t>(function)];
    sums.taken += row.taken.load(std::memory_order_relaxed);
    sums.taken_bytes += row.taken_bytes.load(std::memory_order_relaxed);
    sums.passed += row.passed.load(std::memory_order_relaxed);
    sums.passed_bytes += row.passed_bytes.load(std::memory_order_relaxed);
  }
  return sums;
}

}  // namespace ccore_nccl
