// Whatever a rank is in, and whatever joins it to the others: an abort from a second thread returns at once, and ends it
// and the others. Rank 2 never comes, so that nothing else can before the deadline of 30 s.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<cc_result(cc_comm*)>;

constexpr int kRanks = 3;
constexpr int kAbsent = 2;
constexpr int kAborting = 1;
constexpr size_t kCount = 20000;  // of floats, for each rank

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Stuck {
  const char* name;
  Call call;  // of rank 1, which cannot end without rank 2
};

cc_result pipeline(cc_comm* comm, float* data) {
  const cc_cpu_reduce_options options{sizeof options, 4096, 2, 0};
  cc_cpu_reduce* handle = nullptr;
  cc_result result = cc_cpu_reduce_create(comm, &options, nullptr, &handle);
  if (result == CC_SUCCESS) result = cc_cpu_reduce_run(handle, data, data, kCount, CC_FLOAT32, CC_SUM, nullptr);
  EXPECT(cc_cpu_reduce_destroy(handle) == CC_SUCCESS, cc_last_error(nullptr));
  return result;
}

cc_result compressed(cc_comm* comm, float* data) {
  const cc_topk_options options{sizeof options, 0.01, 1, CC_TOPK_EXACT, CC_TOPK_VALUES_F16, 0, 0};
  return cc_topk_all_reduce(data, data, kCount, CC_FLOAT32, CC_SUM, &options, nullptr, comm, nullptr);
}

cc_result exchanged(cc_comm* comm, const float* in, float* out) {
  const cc_result begun = cc_group_start(comm);
  if (begun != CC_SUCCESS) return begun;
  for (int peer = 0; peer < kRanks; ++peer) {
    cc_send(in, kCount, CC_FLOAT32, peer, comm, nullptr);
    cc_recv(out + static_cast<size_t>(peer) * kCount, kCount, CC_FLOAT32, peer, comm, nullptr);
  }
  return cc_group_end(comm);
}

std::vector<Stuck> everything(float* in, float* out) {
  static constexpr size_t kCounts[kRanks] = {kCount, kCount, kCount};
  static constexpr size_t kOffsets[kRanks] = {0, kCount, 2 * kCount};
  return {
      {"all_reduce", [=](cc_comm* c) { return cc_all_reduce(in, out, kCount, CC_FLOAT32, CC_SUM, c, nullptr); }},
      {"small all_reduce", [=](cc_comm* c) { return cc_all_reduce(in, out, 1, CC_FLOAT32, CC_SUM, c, nullptr); }},
      {"reduce", [=](cc_comm* c) { return cc_reduce(in, out, kCount, CC_FLOAT32, CC_SUM, kAborting, c, nullptr); }},
      {"broadcast", [=](cc_comm* c) { return cc_broadcast(in, out, kCount, CC_FLOAT32, kAbsent, c, nullptr); }},
      {"reduce_scatter",
       [=](cc_comm* c) { return cc_reduce_scatter(in, out, kCount, CC_FLOAT32, CC_SUM, c, nullptr); }},
      {"all_gather", [=](cc_comm* c) { return cc_all_gather(in, out, kCount, CC_FLOAT32, c, nullptr); }},
      {"all_gatherv", [=](cc_comm* c) { return cc_all_gatherv(in, out, kCounts, kOffsets, CC_FLOAT32, c, nullptr); }},
      {"all_to_all", [=](cc_comm* c) { return cc_all_to_all(in, out, kCount, CC_FLOAT32, c, nullptr); }},
      {"all_to_allv",
       [=](cc_comm* c) {
         return cc_all_to_allv(in, kCounts, kOffsets, out, kCounts, kOffsets, CC_FLOAT32, c, nullptr);
       }},
      {"gather", [=](cc_comm* c) { return cc_gather(in, out, kCount, CC_FLOAT32, kAborting, c, nullptr); }},
      {"scatter", [=](cc_comm* c) { return cc_scatter(in, out, kCount, CC_FLOAT32, kAbsent, c, nullptr); }},
      {"recv", [=](cc_comm* c) { return cc_recv(out, kCount, CC_FLOAT32, kAbsent, c, nullptr); }},
      {"group", [=](cc_comm* c) { return exchanged(c, in, out); }},
      {"barrier", [](cc_comm* c) { return cc_barrier(c, nullptr); }},
      {"topk_all_reduce", [=](cc_comm* c) { return compressed(c, in); }},
      {"cpu_reduce", [=](cc_comm* c) { return pipeline(c, in); }},
      {"split",
       [](cc_comm* c) {
         cc_comm* part = nullptr;
         return cc_comm_split(c, 0, 0, nullptr, &part);
       }},
      {"mem_register",
       [=](cc_comm* c) {
         cc_mem_handle handle = 0;
         return cc_mem_register(c, out, sizeof(float) * kCount, &handle, nullptr, nullptr);
       }},
      {"finalize", [](cc_comm* c) { return cc_comm_finalize(c, nullptr); }},
  };
}

// Waits until this rank is in the operation, aborts, and tells how long that took.
double abort_seconds(cc_comm* comm) {
  cc_result state = CC_SUCCESS;
  while (state == CC_SUCCESS) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS, "async error");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto start = Clock::now();
  EXPECT(cc_comm_abort(comm) == CC_SUCCESS, last_error(comm));
  return seconds_since(start);
}

void ends(const std::string& layout, size_t number) {
  Meeting meeting(kRanks);
  run_ranks(kRanks, layout_named(layout), [&](int rank, cc_comm* comm) {
    std::vector<float> in(kRanks * kCount, 1.0F);
    std::vector<float> out(kRanks * kCount);
    const Stuck stuck = everything(in.data(), out.data())[number];
    const std::string about = std::string(stuck.name) + " on " + layout + ", rank " + std::to_string(rank) + ": ";
    meeting.wait();
    if (rank != kAbsent) {
      double took = 0;
      std::thread aborter;
      if (rank == kAborting) aborter = std::thread([&] { took = abort_seconds(comm); });
      const auto start = Clock::now();
      cc_result result = stuck.call(comm);
      // Of what this rank only gives to others it may be done.
      if (rank != kAborting && result == CC_SUCCESS) result = cc_barrier(comm, nullptr);
      if (aborter.joinable()) aborter.join();
      EXPECT(result == (rank == kAborting ? CC_ERROR_ABORTED : CC_ERROR_REMOTE), about, result, " ", last_error(comm));
      EXPECT(seconds_since(start) < 15, about, "it took ", seconds_since(start), " s");
      EXPECT(took < 5, about, "abort took ", took, " s");
      EXPECT(contains(last_error(comm), rank == kAborting ? "abort" : "rank 1"), about, last_error(comm));
    }
    meeting.wait();
  });
}

}  // namespace

void aborts() {
  const size_t count = everything(nullptr, nullptr).size();
  for (const char* layout : {"shm", "tcp", "mixed"}) {
    for (size_t number = 0; number < count; ++number) ends(layout, number);
  }
}

}  // namespace test
