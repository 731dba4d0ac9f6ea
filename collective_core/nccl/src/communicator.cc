#include "communicator.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace ccore_nccl {
namespace {

struct Slot {
  std::atomic<Comm> key{nullptr};
  std::atomic<Communicator*> value{nullptr};
};

// Open addressing. A slot keeps its key for ever; a removed communicator has no value. Readers take no lock.
struct Table {
  explicit Table(size_t slots) : mask(slots - 1), rows(slots) {}
  size_t mask;
  size_t used = 0;
  std::vector<Slot> rows;
};

std::mutex mutex;  // of everything that changes
std::atomic<Table*> table{nullptr};

// Those that graphs still use. Never destroyed, because a graph may end after this library's own objects.
std::vector<std::unique_ptr<Communicator>>& waiting() {
  static auto* const all = new std::vector<std::unique_ptr<Communicator>>;
  return *all;
}

size_t hash_of(Comm key) {
  const auto bits = reinterpret_cast<uintptr_t>(key);
  return (bits >> 4) * size_t{0x9e3779b97f4a7c15} >> 32;
}

Slot* slot_of(Table* in, Comm key) {
  for (size_t at = hash_of(key) & in->mask;; at = (at + 1) & in->mask) {
    Slot& slot = in->rows[at];
    const Comm held = slot.key.load(std::memory_order_acquire);
    if (held == key || held == nullptr) return &slot;
  }
}

void put(Table* in, Comm key, Communicator* value) {
  Slot* slot = slot_of(in, key);
  if (slot->key.load(std::memory_order_relaxed) == nullptr) in->used++;
  slot->value.store(value, std::memory_order_release);
  slot->key.store(key, std::memory_order_release);
}

// The table to write to. A reader may be in the old one, which therefore stays.
Table* table_with_room() {
  Table* now = table.load(std::memory_order_relaxed);
  if (now != nullptr && 2 * (now->used + 1) < now->rows.size()) return now;
  auto* larger = new Table(now == nullptr ? 64 : 2 * now->rows.size());
  for (size_t at = 0; now != nullptr && at < now->rows.size(); at++) {
    if (Communicator* value = now->rows[at].value.load(std::memory_order_relaxed)) put(larger, value->nccl, value);
  }
  table.store(larger, std::memory_order_release);
  return larger;
}

// A rank that never destroys its communicator must not hold up this one for long.
constexpr int64_t kGoodbyeMs = 2000;

void free_now(std::unique_ptr<Communicator> communicator) {
  const ContextScope current(communicator->context);
  const CoreLibrary& with = core();
  cc_op_options options{};
  options.size = sizeof options;
  options.timeout_ms = kGoodbyeMs;
  const bool all_done = with.wait(communicator->cuda, kGoodbyeMs) == CC_SUCCESS &&
                        with.comm_finalize(communicator->comm, &options) == CC_SUCCESS;
  if (!all_done) return;  // other ranks may still read the memory of this one
  with.destroy(communicator->cuda);
  with.comm_destroy(communicator->comm);
}

std::vector<std::unique_ptr<Communicator>> take_finished() {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& all = waiting();
  const auto idle = std::partition(all.begin(), all.end(),
                                   [](const auto& one) { return one->graphs.load(std::memory_order_acquire) > 0; });
  std::vector<std::unique_ptr<Communicator>> finished(std::make_move_iterator(idle),
                                                      std::make_move_iterator(all.end()));
  all.erase(idle, all.end());
  return finished;
}

}  // namespace

Communicator* find_communicator(Comm nccl) {
  Table* now = table.load(std::memory_order_acquire);
  if (now == nullptr || nccl == nullptr) return nullptr;
  const Slot* slot = slot_of(now, nccl);
  return slot->key.load(std::memory_order_acquire) == nccl ? slot->value.load(std::memory_order_acquire) : nullptr;
}

void add_communicator(std::unique_ptr<Communicator> communicator) {
  const std::lock_guard<std::mutex> lock(mutex);
  const Comm key = communicator->nccl;
  put(table_with_room(), key, communicator.release());
}

std::unique_ptr<Communicator> remove_communicator(Comm nccl) {
  const std::lock_guard<std::mutex> lock(mutex);
  Table* now = table.load(std::memory_order_relaxed);
  if (now == nullptr || nccl == nullptr) return nullptr;
  Slot* slot = slot_of(now, nccl);
  if (slot->key.load(std::memory_order_relaxed) != nccl) return nullptr;
  return std::unique_ptr<Communicator>(slot->value.exchange(nullptr, std::memory_order_acq_rel));
}

void retire(std::unique_ptr<Communicator> communicator) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    waiting().push_back(std::move(communicator));
  }
  for (auto& finished : take_finished()) free_now(std::move(finished));
}

void abort_communicator(std::unique_ptr<Communicator> communicator) {
  core().abort(communicator->cuda);
  core().comm_abort(communicator->comm);
  // Its graphs may count themselves off later.
  static_cast<void>(communicator.release());
}

}  // namespace ccore_nccl
