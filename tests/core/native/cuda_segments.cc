// Memory of cuMemCreate behind a buffer: the walk over its segments, exports that are found again, and what becomes of
// them when the application unmaps memory and maps other memory there.
#include "memory/segments.h"

#include <vector>

#include "cases.h"
#include "expect.h"
#include "fake_virtual_memory.h"
#include "memory/known_segments.h"

namespace test {
namespace {

using ccore_cuda::KnownSegments;
using ccore_cuda::PhysicalMemory;
using ccore_cuda::Segments;
using Reports = FakeVirtualMemory::Reports;

constexpr uintptr_t kBase = uintptr_t{1} << 40;

// Three segments of 10, 1 and 4 steps, a gap, and one of 2 steps, in one reserved range.
struct Layout {
  explicit Layout(Reports reports) : driver(reports) {
    driver.reserve_range(kBase, 100 * kStep);
    driver.create_at(kBase, 10 * kStep);
    driver.create_at(kBase + 10 * kStep, kStep);
    driver.create_at(kBase + 11 * kStep, 4 * kStep);
    driver.create_at(kBase + 20 * kStep, 2 * kStep);
  }
  FakeVirtualMemory driver;
};

struct Walk {
  const char* about;
  size_t begin, bytes;  // from kBase
  // Of the segments that are found, in steps from kBase; empty: none.
  std::vector<size_t> edges;
};

const std::vector<Walk> kWalks = {
    {"inside a segment", 3 * kStep + 77, 5, {0, 10}},
    {"a whole segment", 0, 10 * kStep, {0, 10}},
    {"across two", 10 * kStep - 1, 2, {0, 10, 11}},
    {"across three", 5 * kStep, 7 * kStep, {0, 10, 11, 15}},
    {"to the last byte before the gap", 14 * kStep, kStep, {11, 15}},
    {"a segment of one step", 10 * kStep + 5, 100, {10, 11}},
    {"after the gap", 21 * kStep, kStep, {20, 22}},
    {"into the gap", 14 * kStep, kStep + 1, {}},
    {"over the gap", 14 * kStep, 7 * kStep, {}},
    {"in the gap", 16 * kStep, 10, {}},
    {"beyond the end", 21 * kStep, 2 * kStep, {}},
};

void walks(Reports reports) {
  Layout layout(reports);
  for (const Walk& walk : kWalks) {
    const Segments found = Segments::behind(&layout.driver, kBase + walk.begin, walk.bytes);
    EXPECT(found.empty() == walk.edges.empty(), walk.about);
    if (walk.edges.empty()) continue;
    EXPECT(found.list().size() == walk.edges.size() - 1, walk.about, ": ", found.list().size(), " segments");
    for (size_t i = 0; i < found.list().size(); ++i) {
      const uintptr_t base = kBase + walk.edges[i] * kStep, end = kBase + walk.edges[i + 1] * kStep;
      EXPECT(found.list()[i].base == base && found.list()[i].bytes == end - base, walk.about, ": segment ", i);
      EXPECT(found.list()[i].memory == layout.driver.memory_at(base), walk.about, ": memory of segment ", i);
    }
    EXPECT(found.contain(kBase + walk.begin, walk.bytes) && !found.contain(found.base() - 1, 2), walk.about);
    EXPECT(!found.contain(found.base(), found.bytes() + 1), walk.about);
    EXPECT(found.are_mapped() && found.have_descriptors(), walk.about);
  }
  // Nothing keeps a reference after a walk, also after one that failed.
  for (const size_t base : {size_t{0}, size_t{10}, size_t{11}, size_t{20}})
    layout.driver.unmap_at(kBase + base * kStep);
  EXPECT(layout.driver.live() == 0, layout.driver.live(), " are left");
}

void too_many(Reports reports) {
  FakeVirtualMemory driver(reports);
  driver.reserve_range(kBase, (Segments::kMost + 1) * kStep);
  for (size_t i = 0; i <= Segments::kMost; ++i) driver.create_at(kBase + i * kStep, kStep);
  EXPECT(Segments::behind(&driver, kBase, Segments::kMost * kStep).list().size() == Segments::kMost, "the most");
  EXPECT(Segments::behind(&driver, kBase, Segments::kMost * kStep + 1).empty(), "one more");
}

void without_descriptors() {
  FakeVirtualMemory driver(Reports::kMappings);
  driver.create_at(kBase, kStep);
  driver.create_at(kBase + kStep, kStep, false);
  EXPECT(Segments::behind(&driver, kBase, kStep).have_descriptors(), "the first");
  EXPECT(!Segments::behind(&driver, kBase, kStep + 1).have_descriptors(), "both");
}

// The application frees memory and gets other memory at the same address.
void reused(Reports reports) {
  Layout layout(reports);
  FakeVirtualMemory& driver = layout.driver;
  KnownSegments known;
  const uintptr_t middle = kBase + 10 * kStep;
  EXPECT(!known.find(kBase, 1), "found before it was added");
  known.add(Segments::behind(&driver, kBase, 11 * kStep), 7);
  EXPECT(known.find(kBase + 5, 11 * kStep - 5)->number == 7, "the export");
  EXPECT(!known.find(kBase, 11 * kStep + 1), "more than the export");
  const PhysicalMemory before = driver.memory_at(middle);
  driver.unmap_at(middle);
  EXPECT(!known.find(middle, 1) && known.find(kBase, 1), "a segment that was unmapped");
  EXPECT(driver.create_at(middle, kStep) != before, "the number of memory that is held was used again");
  EXPECT(!known.find(middle, 1) && !known.find(kBase, 11 * kStep), "other memory at the address");
  EXPECT(known.find(kBase, 10 * kStep)->number == 7, "the rest");
  known.add(Segments::behind(&driver, middle, kStep), 8);
  EXPECT(known.find(middle, 1)->number == 8, "the new export");
  EXPECT((known.forget(100) == std::vector<int>{7}), "what was unmapped in part is forgotten");
  EXPECT(known.size() == 1 && !known.find(kBase, 1) && known.find(middle, 1)->number == 8, known.size(), " are left");
  EXPECT(known.forget(100).empty(), "nothing more to forget");
}

// Without a reference of the export, its number would be used again, and the wrong memory be taken for it.
void numbers_are_used_again() {
  FakeVirtualMemory driver(Reports::kMappings);
  const PhysicalMemory before = driver.create_at(kBase, kStep);
  Segments held = Segments::behind(&driver, kBase, kStep);
  driver.unmap_at(kBase);
  EXPECT(driver.live() == 1, "the export holds its memory");
  held = Segments();
  EXPECT(driver.live() == 0 && driver.create_at(kBase, kStep) == before, "the number is free");
}

void evicted() {
  FakeVirtualMemory driver(Reports::kMappings);
  KnownSegments known;
  for (int i = 0; i < 6; ++i) {
    const uintptr_t base = kBase + static_cast<size_t>(i) * 2 * kStep;
    driver.create_at(base, kStep, i != 1);
    known.begin_operation(i == 2);
    known.add(Segments::behind(&driver, base, kStep), i == 1 ? -2 : i);
  }
  known.begin_operation(false);
  EXPECT(known.find(kBase, kStep)->number == 0, "a use makes it new");
  EXPECT((known.forget(4) == std::vector<int>{3}), "without a place, and the oldest with one");
  EXPECT(known.size() == 4, known.size(), " are left");
  driver.unmap_at(kBase + 4 * kStep);
  EXPECT((known.forget(0) == std::vector<int>{4, 5, 0}), "all but the one that a graph holds");
  EXPECT(known.size() == 1, known.size(), " are left");
}

}  // namespace

void cuda_segments() {
  for (const Reports reports : {Reports::kMappings, Reports::kReservations, Reports::kNothing}) {
    walks(reports);
    too_many(reports);
    reused(reports);
  }
  without_descriptors();
  numbers_are_used_again();
  evicted();
}

}  // namespace test
