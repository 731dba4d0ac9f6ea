// Every way an operation can fail: it fails on all ranks, soon, with the right name.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

cc_result reduce(cc_comm* comm, size_t count, const cc_op_options* options = nullptr) {
  std::vector<float> data(count);
  return cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, comm, options);
}

// Waits until this rank has heard of what ended the communicator elsewhere.
void await_news(cc_comm* comm) {
  cc_result state = CC_SUCCESS;
  for (int i = 0; i < 2000 && state == CC_SUCCESS; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS, "async error");
  }
}

void abort_ends_the_operation_everywhere(const std::string& layout) {
  Meeting meeting(3);
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(reduce(comm, 10) == CC_SUCCESS, last_error(comm));
    meeting.wait();
    std::thread aborter;
    std::atomic<double> took{0};
    if (rank == 1) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const auto start = Clock::now();
        cc_comm_abort(comm);
        took = seconds_since(start);
      });
    }
    const auto start = Clock::now();
    // Rank 2 never calls it, so only the abort can end it.
    const cc_result result = rank == 2 ? CC_ERROR_REMOTE : reduce(comm, 1 << 20);
    if (aborter.joinable()) aborter.join();
    EXPECT(result == (rank == 1 ? CC_ERROR_ABORTED : CC_ERROR_REMOTE), "rank ", rank, " got ", result);
    EXPECT(seconds_since(start) < 15, "it took ", seconds_since(start), " s");
    EXPECT(took < 5, "abort took ", took, " s");
    meeting.wait();
    await_news(comm);
    EXPECT(contains(last_error(comm), "rank 1"), last_error(comm));
    // Sticky.
    EXPECT(reduce(comm, 1) == (rank == 1 ? CC_ERROR_ABORTED : CC_ERROR_REMOTE), "not sticky");
    cc_result state = CC_SUCCESS;
    EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS && state != CC_SUCCESS, "no async error");
  });
}

void the_deadline_names_who_is_late(const std::string& layout) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    cc_op_options options{sizeof options, 300, 0, 0, nullptr};
    if (rank == 0) {
      const auto start = Clock::now();
      EXPECT(reduce(comm, 1000, &options) == CC_ERROR_TIMEOUT, last_error(comm));
      EXPECT(seconds_since(start) > 0.25 && seconds_since(start) < 15, "after ", seconds_since(start), " s");
      EXPECT(contains(last_error(comm), "all_reduce(count=1000, f32, sum)"), last_error(comm));
      EXPECT(contains(last_error(comm), "data from rank 1"), last_error(comm));
    }
    meeting.wait();
    if (rank == 1) {
      await_news(comm);
      EXPECT(reduce(comm, 1000) == CC_ERROR_REMOTE, last_error(comm));
      EXPECT(contains(last_error(comm), "rank 0"), last_error(comm));
    }
  });
}

// calls[rank] differ; both ranks must hear of it, with both calls in the text.
void desync(const std::string& layout, const char* first, const char* second,
            const std::function<cc_result(int, cc_comm*)>& call) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    EXPECT(reduce(comm, 5) == CC_SUCCESS, last_error(comm));
    const cc_result result = call(rank, comm);
    EXPECT(result == CC_ERROR_DESYNC, "rank ", rank, " got ", result, " ", last_error(comm));
    EXPECT(contains(last_error(comm), first), last_error(comm));
    EXPECT(contains(last_error(comm), second), last_error(comm));
  });
}

void differences_are_named(const std::string& layout) {
  desync(layout, "all_reduce(count=100, f32", "all_reduce(count=101, f32",
         [](int rank, cc_comm* comm) { return reduce(comm, rank == 0 ? 100 : 101); });
  desync(layout, "all_reduce(count=64, i32", "all_reduce(count=64, f32", [](int rank, cc_comm* comm) {
    std::vector<int> data(64);
    const cc_dtype dtype = rank == 0 ? CC_INT32 : CC_FLOAT32;
    return cc_all_reduce(data.data(), data.data(), 64, dtype, CC_SUM, comm, nullptr);
  });
  desync(layout, "sum)", "max)", [](int rank, cc_comm* comm) {
    float data = 0;
    return cc_all_reduce(&data, &data, 1, CC_FLOAT32, rank == 0 ? CC_SUM : CC_MAX, comm, nullptr);
  });
  desync(layout, "barrier()", "all_gather(count=4, u8)", [](int rank, cc_comm* comm) {
    unsigned char data[8] = {};
    return rank == 0 ? cc_barrier(comm, nullptr) : cc_all_gather(data, data, 4, CC_UINT8, comm, nullptr);
  });
  desync(layout, "reduce(count=4, u8, sum, root=0)", "reduce(count=4, u8, max, root=0)", [](int rank, cc_comm* comm) {
    unsigned char data[4] = {};
    // A rank that only sends may be done before it hears of it.
    const cc_result first = cc_reduce(data, data, 4, CC_UINT8, rank == 0 ? CC_SUM : CC_MAX, 0, comm, nullptr);
    return first == CC_SUCCESS ? reduce(comm, 1) : first;
  });
  desync(layout, "all_gatherv(count in all=3, u8", "operation 2: all_gatherv(count in all=3, u8",
         [](int rank, cc_comm* comm) {
           unsigned char data[3] = {};
           unsigned char all[3] = {};
           const size_t ones[2] = {1, 2};
           const size_t twos[2] = {2, 1};
           const size_t offsets[2] = {0, 1};
           return cc_all_gatherv(data, all, rank == 0 ? ones : twos, offsets, CC_UINT8, comm, nullptr);
         });
  desync(layout, "all_to_allv(count between the two=1, u8)", "all_to_allv(count between the two=2, u8)",
         [](int rank, cc_comm* comm) {
           unsigned char data[4] = {};
           unsigned char all[4] = {};
           const size_t out[2] = {rank == 0 ? size_t{0} : size_t{1}, rank == 0 ? size_t{1} : size_t{0}};
           const size_t in[2] = {0, rank == 0 ? size_t{1} : size_t{0}};
           const size_t wrong[2] = {2, 0};
           const size_t offsets[2] = {0, 2};
           // Only rank 1 sees the difference; rank 0 may be done before it hears of it.
           const cc_result first =
               cc_all_to_allv(data, out, offsets, all, rank == 0 ? in : wrong, offsets, CC_UINT8, comm, nullptr);
           return first == CC_SUCCESS ? reduce(comm, 1) : first;
         });
  desync(layout, "all_reduce(count=0", "all_reduce(count=3",
         [](int rank, cc_comm* comm) { return reduce(comm, rank == 0 ? 0 : 3); });
}

void a_rank_that_left_is_named(const std::string& layout) {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  run_threads(3, [&](int rank) {
    cc_comm* comm = join(id, rank, 3, layout_named(layout));
    EXPECT(reduce(comm, 100000) == CC_SUCCESS, last_error(comm));
    if (rank != 2) {
      const auto start = Clock::now();
      const cc_result result = reduce(comm, 100000);
      EXPECT(result == CC_ERROR_REMOTE, "rank ", rank, " got ", result);
      EXPECT(contains(last_error(comm), "rank 2"), last_error(comm));
      EXPECT(seconds_since(start) < 15, "it took ", seconds_since(start), " s");
    }
    EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
  });
}

void destroy_ends_a_running_operation() {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  Meeting meeting(2);
  run_threads(2, [&](int rank) {
    cc_comm* comm = join(id, rank, 2, layout_named("shm"));
    if (rank == 0) {
      cc_result result = CC_SUCCESS;
      std::thread caller([&] { result = reduce(comm, 1000); });
      cc_result state = CC_SUCCESS;
      while (state != CC_IN_PROGRESS) EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS, "async error");
      EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
      caller.join();
      EXPECT(result == CC_ERROR_ABORTED, "got ", result);
    }
    meeting.wait();
    if (rank == 1) EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
  });
}

bool sleeps(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(status, text);
  return contains(text, ") S ");
}

// Whatever they wait for: the operation before theirs, or to ask something and then call one.
void destroy_ends_those_that_are_queued() {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  Meeting meeting(2);
  run_threads(2, [&](int rank) {
    cc_comm* comm = join(id, rank, 2, layout_named("shm"));
    int value = 1;
    cc_mem_handle handle = 0;
    const cc_result known = cc_mem_register(comm, &value, sizeof value, &handle, nullptr, nullptr);
    EXPECT(known == CC_SUCCESS, last_error(comm));
    if (rank == 0) {
      constexpr size_t kCallers = 24;
      std::vector<cc_result> results(kCallers, CC_SUCCESS);
      std::vector<std::thread> callers;
      for (size_t i = 0; i < kCallers; ++i) {
        std::atomic<pid_t> caller{0};
        callers.emplace_back([&, i] {
          const cc_op_options* const none = nullptr;
          caller = gettid();
          results[i] = i % 2 == 0 ? cc_barrier(comm, none) : cc_mem_deregister(comm, handle, none);
        });
        while (caller == 0 || !sleeps(caller)) std::this_thread::yield();
      }
      EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
      for (std::thread& caller : callers) caller.join();
      for (const cc_result result : results) EXPECT(result == CC_ERROR_ABORTED, "got ", result);
    }
    meeting.wait();
    if (rank == 1) EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
  });
}

void bad_calls_harm_nobody() {
  run_ranks(2, layout_named("shm"), [](int rank, cc_comm* comm) {
    float x = 1;
    EXPECT(cc_all_reduce(nullptr, &x, 1, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_ERROR_INVALID_ARGUMENT, "null");
    EXPECT(cc_all_reduce(&x, &x, 1, static_cast<cc_dtype>(99), CC_SUM, comm, nullptr) == CC_ERROR_INVALID_ARGUMENT,
           "dtype");
    EXPECT(cc_all_reduce(&x, &x, 1, CC_FLOAT32, static_cast<cc_redop>(7), comm, nullptr) == CC_ERROR_INVALID_ARGUMENT,
           "redop");
    EXPECT(cc_all_reduce(&x, &x, SIZE_MAX / 2, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_ERROR_INVALID_ARGUMENT,
           "overflow");
    EXPECT(cc_broadcast(&x, &x, 1, CC_FLOAT32, 2, comm, nullptr) == CC_ERROR_INVALID_ARGUMENT, "root");
    EXPECT(cc_barrier(nullptr, nullptr) == CC_ERROR_INVALID_ARGUMENT, "no communicator");
    EXPECT(cc_all_reduce(&x, &x, 1, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, "rank ", rank, last_error(comm));
    EXPECT(x == 2, x);
  });
}

}  // namespace

void failures() {
  for (const char* layout : {"shm", "tcp"}) {
    abort_ends_the_operation_everywhere(layout);
    the_deadline_names_who_is_late(layout);
    differences_are_named(layout);
    a_rank_that_left_is_named(layout);
  }
  destroy_ends_a_running_operation();
  for (int round = 0; round < 10; ++round) destroy_ends_those_that_are_queued();
  bad_calls_harm_nobody();
}

}  // namespace test
