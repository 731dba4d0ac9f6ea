// How the ranks exchange what they measured of one class of calls: memory of the host that all of them map.
//
// A rank posts its record when its events have ended, which other ranks cannot foresee. So a boundary counts the ranks
// that had posted one boundary before: each rank waits until the others have come so far in their program, which they
// have long done unless they are a whole margin of calls behind, and finds the same. No rank waits for the GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "tuning/competition.h"

namespace ccore_cuda {

// Of one rank and class. Memory of zeros is an empty one.
struct SharedRecord {
  std::atomic<uint32_t> begun;  // calls that the rank has begun
  std::atomic<uint32_t> posted_by;  // the number of calls begun when the record was there; 0: it is not
  Record record;

  void begin(uint32_t number) { begun.store(number + 1, std::memory_order_release); }
  // Before begin() of the same call.
  void post(uint32_t number, const Record& own) {
    record = own;
    posted_by.store(number + 1, std::memory_order_release);
  }
};

// The records of all ranks at the boundary before call `number`; nothing if one had not posted a margin earlier.
// patience(rank) returns after a moment, or throws to give up waiting for a rank.
template <typename Patience>
std::optional<std::vector<Record>> records_at(const std::vector<SharedRecord*>& shared_records, uint32_t number,
                                              uint32_t margin, Patience patience) {
  const uint32_t before = number - margin + 1;
  bool all = true;
  for (size_t rank = 0; rank < shared_records.size(); ++rank) {
    while (shared_records[rank]->begun.load(std::memory_order_acquire) < before) patience(rank);
    const uint32_t posted_by = shared_records[rank]->posted_by.load(std::memory_order_acquire);
    all = all && posted_by != 0 && posted_by <= before;
  }
  if (!all) return std::nullopt;
  std::vector<Record> records;
  for (const SharedRecord* shared_record : shared_records) records.push_back(shared_record->record);
  return records;
}

}  // namespace ccore_cuda
