// What the flight recorder and the sums say of operations that went well, that hang and that failed.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cases.h"
#include "common/clock.h"
#include "common/quick_clock.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

std::vector<cc_trace_entry> trace_of(cc_comm* comm) {
  std::vector<cc_trace_entry> entries(CC_TRACE_ENTRIES + 5);
  size_t count = entries.size();
  EXPECT(cc_comm_trace(comm, entries.data(), sizeof entries[0], &count) == CC_SUCCESS, cc_last_error(nullptr));
  entries.resize(count);
  return entries;
}

cc_op_stats stats_of(cc_comm* comm, cc_operation operation) {
  cc_op_stats stats{};
  stats.size = sizeof stats;
  EXPECT(cc_comm_stats(comm, operation, &stats) == CC_SUCCESS, cc_last_error(nullptr));
  return stats;
}

std::vector<cc_count> counts_of(cc_comm* comm) {
  size_t count = 0;
  EXPECT(cc_comm_counts(comm, nullptr, sizeof(cc_count), &count) == CC_SUCCESS, cc_last_error(nullptr));
  std::vector<cc_count> counts(count);
  EXPECT(cc_comm_counts(comm, counts.data(), sizeof(cc_count), &count) == CC_SUCCESS, cc_last_error(nullptr));
  EXPECT(count == counts.size(), count);
  return counts;
}

cc_result reduce(cc_comm* comm, size_t count) {
  std::vector<float> data(count);
  return cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_MAX, comm, nullptr);
}

void what_was_called_is_counted(const std::string& layout) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    for (size_t i = 0; i < 70; ++i) EXPECT(reduce(comm, 100 + i) == CC_SUCCESS, last_error(comm));
    int value = rank;
    const cc_op_options tagged{sizeof tagged, 0, 9, 0, nullptr};
    int source = -1;
    if (rank == 0) EXPECT(cc_send(&value, 1, CC_INT32, 1, comm, &tagged) == CC_SUCCESS, last_error(comm));
    if (rank == 1) EXPECT(cc_recv_any(&value, 1, CC_INT32, &source, comm, &tagged) == CC_SUCCESS, last_error(comm));
    const size_t counts[2] = {3, 4};
    const size_t mirrored[2] = {rank == 0 ? size_t{3} : size_t{4}, rank == 0 ? size_t{3} : size_t{4}};
    const size_t offsets[2] = {0, 4};
    unsigned char out[8] = {};
    unsigned char in[8] = {};
    EXPECT(cc_all_to_allv(out, counts, offsets, in, mirrored, offsets, CC_UINT8, comm, nullptr) == CC_SUCCESS,
           last_error(comm));

    const std::vector<cc_trace_entry> trace = trace_of(comm);
    EXPECT(trace.size() == CC_TRACE_ENTRIES, trace.size());
    const cc_trace_entry& first = trace.front();
    EXPECT(first.operation == CC_OPERATION_ALL_REDUCE && first.sequence == 9 && first.count == 108, first.sequence);
    EXPECT(first.dtype == CC_FLOAT32 && first.redop == CC_MAX && first.result == CC_SUCCESS, "the call");
    EXPECT(first.algorithm == std::string(layout == "tcp" ? "doubling" : "oneshot"), first.algorithm);
    for (size_t i = 1; i < trace.size(); ++i) {
      EXPECT(trace[i].start_ns >= trace[i - 1].end_ns && trace[i].end_ns >= trace[i].start_ns, "times of ", i);
    }
    const cc_trace_entry& transfer = trace[trace.size() - 2];
    EXPECT(transfer.operation == (rank == 0 ? CC_OPERATION_SEND : CC_OPERATION_RECV), transfer.operation);
    EXPECT(transfer.root == 1 - rank && transfer.tag == 9, "with rank ", transfer.root);
    EXPECT(trace.back().algorithm == std::string("pairwise") && trace.back().count == 7, trace.back().count);

    const cc_op_stats reduced = stats_of(comm, CC_OPERATION_ALL_REDUCE);
    EXPECT(reduced.calls == 70 && reduced.errors == 0, reduced.calls);
    EXPECT(reduced.bytes == 4 * (70 * 100 + 69 * 70 / 2), reduced.bytes);
    EXPECT(reduced.longest_ns > 0 && reduced.longest_ns <= reduced.total_ns, reduced.longest_ns);
    EXPECT(stats_of(comm, CC_OPERATION_SEND).bytes == (rank == 0 ? 4 : 0), "sent");
    EXPECT(stats_of(comm, CC_OPERATION_RECV).calls == (rank == 1 ? 1 : 0), "received");
    EXPECT(stats_of(comm, CC_OPERATION_ALL_TO_ALLV).bytes == 7, "all_to_allv");
    EXPECT(stats_of(comm, CC_OPERATION_BARRIER).calls == 0, "never called");
  });
}

// Another thread sees what hangs, and on whom; afterwards the record says how it ended.
void what_hangs_is_seen(const std::string& layout) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    if (rank == 0) {
      std::thread watcher([&] {
        cc_trace_entry last{};
        for (int i = 0; i < 2000 && last.waits_for != 1; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          last = trace_of(comm).back();
        }
        EXPECT(last.operation == CC_OPERATION_ALL_REDUCE && last.result == CC_IN_PROGRESS, last.operation);
        EXPECT(last.end_ns == 0 && last.count == 40000 && last.waits_for == 1, "waits for ", last.waits_for);
        EXPECT(cc_comm_abort(comm) == CC_SUCCESS, "abort");
      });
      const cc_result result = reduce(comm, 40000);
      watcher.join();
      EXPECT(result == CC_ERROR_ABORTED, "got ", result);
      const cc_trace_entry last = trace_of(comm).back();
      EXPECT(last.result == CC_ERROR_ABORTED && last.end_ns > last.start_ns, "result ", last.result);
      EXPECT(last.waits_for == 1 && last.algorithm[0] != '\0', "by ", last.algorithm);
      EXPECT(stats_of(comm, CC_OPERATION_ALL_REDUCE).errors == 1, "errors");
    }
    meeting.wait();
  });
}

// Reading while operations run; a sanitizer's business, and no entry may be torn.
void readers_disturb_nobody() {
  run_ranks(2, layout_named("shm"), [&](int, cc_comm* comm) {
    std::atomic<bool> over{false};
    std::thread reader([&] {
      while (!over) {
        for (const cc_trace_entry& entry : trace_of(comm)) {
          EXPECT(entry.count == 10 * entry.sequence, entry.count, " elements in operation ", entry.sequence);
        }
        std::this_thread::yield();
      }
    });
    for (size_t i = 1; i <= 500; ++i) EXPECT(reduce(comm, 10 * i) == CC_SUCCESS, last_error(comm));
    over = true;
    reader.join();
  });
}

// Also those of a group with more transfers than the record has entries.
void groups_of_any_size_are_counted() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    constexpr uint64_t kMany = CC_TRACE_ENTRIES + 36;
    const int out = 3;
    std::vector<int> in(kMany);
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    for (int& place : in) {
      EXPECT(cc_send(&out, 1, CC_INT32, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
      EXPECT(cc_recv(&place, 1, CC_INT32, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
    }
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
    for (const cc_operation operation : {CC_OPERATION_SEND, CC_OPERATION_RECV}) {
      const cc_op_stats stats = stats_of(comm, operation);
      EXPECT(stats.calls == kMany && stats.errors == 0 && stats.bytes == 4 * kMany, operation, ": ", stats.calls);
    }
    EXPECT(trace_of(comm).size() == CC_TRACE_ENTRIES, "entries");
  });
}

// The scale of the processor's counter: learned after a millisecond, right to a microsecond, and forgotten when the
// counter runs otherwise.
void ticks_become_times() {
  ccore::TickScale scale;
  EXPECT(!scale.covers(1000), "nothing is known");
  scale.learn(1000, 5000);
  EXPECT(!scale.covers(1001), "one reading is no scale");
  scale.learn(2000, 5500);
  EXPECT(!scale.covers(2001), "too soon to tell");
  const uint64_t later = 1000 + 6000000;  // at 3 ticks a nanosecond
  scale.learn(later, 5000 + 2000000);
  EXPECT(scale.covers(later) && scale.ns_at(later) == 2005000, scale.ns_at(later));
  EXPECT(scale.covers(later + 2999000) && scale.ns_at(later + 2999000) / 1000 == 3004, scale.ns_at(later + 2999000));
  EXPECT(!scale.covers(later + 3100000) && !scale.covers(later - 1), "a millisecond, and no time before");
  scale.learn(later + 6000000, 2005000 + 4000000);  // half as fast: a machine that was suspended
  EXPECT(!scale.covers(later + 6000000), "another rate is not trusted at once");
  scale.learn(later, 9000000);  // and backwards
  EXPECT(!scale.covers(later), "no ticks before the last");
  ccore::QuickClock clock;
  int64_t before = 0;
  for (int i = 0; i < 200000; ++i) {
    const int64_t now = clock.now_ns();
    EXPECT(now >= before, "backwards by ", before - now);
    before = now;
  }
  // However long this thread does not run between two of these readings.
  const int64_t least = ccore::now_ns() - 1000000;
  const int64_t now = clock.now_ns();
  EXPECT(now > least && now < ccore::now_ns() + 1000000, "it is the monotonic clock");
}

void room_and_versions() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    for (size_t i = 0; i < 4; ++i) EXPECT(reduce(comm, i) == CC_SUCCESS, last_error(comm));
    // A caller of an older version knows less of an entry, and may want only the newest.
    struct Short {
      size_t size;
      uint64_t sequence;
    } two[2];
    size_t count = 2;
    EXPECT(cc_comm_trace(comm, reinterpret_cast<cc_trace_entry*>(two), sizeof two[0], &count) == CC_SUCCESS, "trace");
    EXPECT(count == 2 && two[0].sequence == 3 && two[1].sequence == 4 && two[1].size == sizeof(Short), count);
    count = 0;
    EXPECT(cc_comm_trace(comm, nullptr, sizeof two[0], &count) == CC_SUCCESS && count == 0, count);
    cc_op_stats stats{};
    EXPECT(cc_comm_stats(comm, CC_OPERATION_BARRIER, &stats) == CC_ERROR_INVALID_ARGUMENT, "size is not set");
    stats.size = sizeof stats;
    EXPECT(cc_comm_stats(comm, static_cast<cc_operation>(0), &stats) == CC_ERROR_INVALID_ARGUMENT, "no operation");
    EXPECT(cc_comm_stats(comm, static_cast<cc_operation>(33), &stats) == CC_ERROR_INVALID_ARGUMENT, "no operation");
  });
}

void sizes_are_counted_by_algorithm(const std::string& layout) {
  run_ranks(2, layout_named(layout), [&](int, cc_comm* comm) {
    const std::string small = layout == "tcp" ? "doubling" : "oneshot";
    for (int times = 0; times < 100; ++times) EXPECT(reduce(comm, 8) == CC_SUCCESS, last_error(comm));
    EXPECT(reduce(comm, 16) == CC_SUCCESS && reduce(comm, 8) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    const std::vector<cc_count> counts = counts_of(comm);
    EXPECT(counts.size() == 3, counts.size());
    const cc_count& first = counts[0];
    EXPECT(first.operation == CC_OPERATION_ALL_REDUCE && first.bytes == 32 && first.calls == 101, first.calls);
    EXPECT(first.algorithm == small && first.rounded == 0 && first.errors == 0, first.algorithm);
    EXPECT(first.total_ns > 0 && first.total_ns <= stats_of(comm, CC_OPERATION_ALL_REDUCE).total_ns, first.total_ns);
    EXPECT(counts[1].bytes == 64 && counts[1].calls == 1, counts[1].bytes);
    EXPECT(counts[2].operation == CC_OPERATION_BARRIER && counts[2].calls == 1, counts[2].operation);
    // A caller of an older version, with room for one row.
    struct Short {
      size_t size;
      uint64_t bytes;
    } one{};
    size_t count = 1;
    EXPECT(cc_comm_counts(comm, reinterpret_cast<cc_count*>(&one), sizeof one, &count) == CC_SUCCESS, "short");
    EXPECT(count == 3 && one.size == sizeof one && one.bytes == 32, one.bytes);
    EXPECT(cc_comm_counts(comm, nullptr, sizeof one, &count) == CC_ERROR_INVALID_ARGUMENT, "no memory for 3");
  });
}

void many_sizes_take_bounded_memory() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    const size_t sizes = 5 * CC_COUNT_SIZES;
    for (size_t i = 1; i <= sizes; ++i) EXPECT(reduce(comm, i) == CC_SUCCESS, last_error(comm));
    EXPECT(reduce(comm, 1) == CC_SUCCESS, last_error(comm));
    const std::vector<cc_count> counts = counts_of(comm);
    EXPECT(counts.size() > CC_COUNT_SIZES && counts.size() < CC_COUNT_SIZES + 16, counts.size());
    uint64_t calls = 0;
    for (const cc_count& one : counts) {
      calls += one.calls;
      EXPECT((one.rounded != 0) == (&one >= &counts[CC_COUNT_SIZES]), "the first sizes stay exact: ", one.bytes);
      if (one.rounded != 0) EXPECT((one.bytes & (one.bytes - 1)) == 0, one.bytes);
    }
    EXPECT(calls == sizes + 1 && counts[0].calls == 2, calls);
  });
}

}  // namespace

void recorder() {
  for (const char* layout : {"shm", "tcp"}) {
    what_was_called_is_counted(layout);
    what_hangs_is_seen(layout);
    sizes_are_counted_by_algorithm(layout);
  }
  many_sizes_take_bounded_memory();
  readers_disturb_nobody();
  groups_of_any_size_are_counted();
  ticks_become_times();
  room_and_versions();
}

}  // namespace test
