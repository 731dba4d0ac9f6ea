// The CPU-reduce pipeline: right results, copies beside the reduction, bounded staging, and every way to fail.
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "collective_core/collective_core.h"
#include "expect.h"
#include "oracle.h"
#include "poll_engine.h"
#include "ranks.h"

namespace test {
namespace {

constexpr int64_t kChunkBytes = 4099;  // no multiple of any element but a byte

cc_cpu_reduce_options options_of(int64_t chunk_bytes, int32_t chunks) {
  cc_cpu_reduce_options options{};
  options.size = sizeof options;
  options.chunk_bytes = chunk_bytes;
  options.chunks = chunks;
  return options;
}

class Handle {
 public:
  Handle(cc_comm* comm, const cc_cpu_reduce_options& options, const cc_copy_engine* engine) : comm_(comm) {
    EXPECT(cc_cpu_reduce_create(comm, &options, engine, &handle_) == CC_SUCCESS, cc_last_error(nullptr));
  }
  ~Handle() { cc_cpu_reduce_destroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cc_cpu_reduce* get() const { return handle_; }
  void succeed(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op) const {
    const cc_result result = cc_cpu_reduce_run(handle_, send, recv, count, dtype, op, nullptr);
    EXPECT(result == CC_SUCCESS, cc_error_string(result), ": ", last_error(comm_), cc_last_error(nullptr));
  }
  cc_result run(std::vector<float>* data, const cc_op_options* options = nullptr) const {
    return cc_cpu_reduce_run(handle_, data->data(), data->data(), data->size(), CC_FLOAT32, CC_SUM, options);
  }

 private:
  cc_comm* comm_;
  cc_cpu_reduce* handle_ = nullptr;
};

void results_are_right(const std::string& layout, int nranks, bool polled) {
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    PollEngine engine;
    const cc_copy_engine callbacks = engine.callbacks();
    const Handle handle(comm, options_of(kChunkBytes, 0), polled ? &callbacks : nullptr);
    uint64_t calls = 0;
    for (const cc_dtype dtype : {CC_FLOAT32, CC_FLOAT16, CC_INT64}) {
      const size_t chunk = static_cast<size_t>(kChunkBytes) / cc_dtype_size(dtype);
      for (const size_t count : {size_t{0}, size_t{1}, chunk - 1, chunk, chunk + 1, 7 * chunk + 5}) {
        std::vector<Data> inputs;
        for (int other = 0; other < nranks; ++other) inputs.push_back(random_input(dtype, count, other, 3));
        const Data& own = inputs[static_cast<size_t>(rank)];
        for (const cc_redop op : {CC_SUM, CC_AVG, CC_MAX}) {
          Data apart(own.size(), 0xa5);
          handle.succeed(own.data(), apart.data(), count, dtype, op);
          expect_reduction(apart, inputs, 0, dtype, op);
          Data in_place = own;
          handle.succeed(in_place.data(), in_place.data(), count, dtype, op);
          EXPECT(in_place == apart, "in place differs: count ", count);
          calls += 2;
        }
      }
    }
    EXPECT(engine.defect.empty(), engine.defect);
    EXPECT(engine.under_way() == 0, engine.under_way(), " copies are under way after the end");
    cc_op_stats stats{};
    stats.size = sizeof stats;
    EXPECT(cc_comm_stats(comm, CC_OPERATION_CPU_REDUCE, &stats) == CC_SUCCESS, cc_last_error(nullptr));
    EXPECT(stats.calls == calls && stats.errors == 0, "counted ", stats.calls, " of ", calls);
  });
}

void copies_go_on_beside_the_reduction(int32_t slots) {
  const int chunks = 10;
  run_ranks(2, layout_named("shm"), [&](int, cc_comm* comm) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    PollEngine engine;
    const cc_copy_engine callbacks = engine.callbacks();
    const Handle handle(comm, options_of(4096, slots), &callbacks);
    std::vector<float> data(chunks * 1024, 1.0f);
    for (int repeat = 0; repeat < 2; ++repeat)
      handle.succeed(data.data(), data.data(), data.size(), CC_FLOAT32, CC_AVG);
    EXPECT(engine.fetches == 2 * chunks, "fetched ", engine.fetches);
    // All chunks have a next one but the last.
    const int expected = slots == 1 ? 0 : 2 * (chunks - 1);
    EXPECT(engine.next_under_way == expected, slots, " slots: ", engine.next_under_way, ", not ", expected);
    engine.polls_to_device = 4;
    engine.polls_to_host = 2;
    handle.succeed(data.data(), data.data(), data.size(), CC_FLOAT32, CC_AVG);
    EXPECT((engine.last_under_way > 0) == (slots > 1), slots, " slots: ", engine.last_under_way, " went back beside");
    EXPECT(engine.most_chunks == static_cast<size_t>(slots), engine.most_chunks, " chunks were under way");
    EXPECT(engine.buffers.size() == static_cast<size_t>(slots), engine.buffers.size(), " buffers, not ", slots);
    for (const void* buffer : engine.buffers) {
      EXPECT(reinterpret_cast<uintptr_t>(buffer) % page == 0, "a buffer does not begin at a page");
    }
    EXPECT(engine.defect.empty(), engine.defect);
  });
}

void a_copy_that_fails_ends_all_ranks(const std::string& layout, bool at_start) {
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    PollEngine engine;
    if (rank == 1) (at_start ? engine.fails_to_start : engine.fails_to_end) = 4;
    const cc_copy_engine callbacks = engine.callbacks();
    const Handle handle(comm, options_of(4096, 3), &callbacks);
    std::vector<float> data(10 * 1024);
    const cc_result result = handle.run(&data);
    EXPECT(result == (rank == 1 ? CC_ERROR_SYSTEM : CC_ERROR_REMOTE), "rank ", rank, " got ", result);
    const std::string text = last_error(comm);
    EXPECT(contains(text, "on rank 1 the copy of chunk 4 of 10 to the host failed"), text);
    EXPECT(contains(text, at_start ? "no copy channel is left" : "uncorrectable memory error at page 17"), text);
    EXPECT(engine.under_way() == 0, engine.under_way(), " copies still use the buffers");
    EXPECT(engine.defect.empty(), engine.defect);
    EXPECT(handle.run(&data) == result, "not sticky");
  });
}

void a_copy_that_does_not_end_meets_the_deadline() {
  PollEngine engine;  // outlives its handle, as the header asks
  engine.polls_to_host = PollEngine::kNever;
  run_ranks(1, layout_named("shm"), [&](int, cc_comm* comm) {
    const cc_copy_engine callbacks = engine.callbacks();
    const Handle handle(comm, options_of(4096, 2), &callbacks);
    std::vector<float> data(5 * 1024);
    cc_op_options options{};
    options.size = sizeof options;
    options.timeout_ms = 100;
    EXPECT(handle.run(&data, &options) == CC_ERROR_TIMEOUT, last_error(comm));
    EXPECT(contains(last_error(comm), "it waits for the copy of chunk 0 of 5 to the host"), last_error(comm));
    EXPECT(handle.run(&data) == CC_ERROR_INVALID_USAGE, "its buffers are in use");
    EXPECT(contains(cc_last_error(nullptr), "still under way"), cc_last_error(nullptr));
  });
}

void different_calls_are_noticed() {
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    const Handle handle(comm, options_of(rank == 0 ? 4096 : 8192, 2), nullptr);
    std::vector<float> data(100);
    EXPECT(handle.run(&data) == CC_ERROR_DESYNC, last_error(comm));
    EXPECT(contains(last_error(comm), "cpu_reduce(count=100, f32, sum, chunks of 1024 elements)"), last_error(comm));
  });
}

void wrong_calls_are_refused(cc_comm* comm) {
  cc_cpu_reduce* handle = nullptr;
  const auto refused = [&](const cc_cpu_reduce_options* options, const cc_copy_engine* engine, const char* why) {
    EXPECT(cc_cpu_reduce_create(comm, options, engine, &handle) == CC_ERROR_INVALID_ARGUMENT, why);
    EXPECT(handle == nullptr && contains(cc_last_error(nullptr), why), cc_last_error(nullptr));
  };
  EXPECT(cc_cpu_reduce_create(nullptr, nullptr, nullptr, &handle) == CC_ERROR_INVALID_ARGUMENT, "no communicator");
  EXPECT(cc_cpu_reduce_create(comm, nullptr, nullptr, nullptr) == CC_ERROR_INVALID_ARGUMENT, "no handle");
  const cc_cpu_reduce_options unset{};
  refused(&unset, nullptr, "cc_cpu_reduce_options.size");
  const cc_cpu_reduce_options negative = options_of(-1, 0);
  refused(&negative, nullptr, "chunk_bytes");
  const cc_cpu_reduce_options many = options_of(0, 1025);
  refused(&many, nullptr, "chunks");
  PollEngine engine;
  cc_copy_engine callbacks = engine.callbacks();
  callbacks.poll = nullptr;
  refused(nullptr, &callbacks, "callback");
  callbacks = engine.callbacks();
  callbacks.size = 0;
  refused(nullptr, &callbacks, "cc_copy_engine.size");

  const Handle narrow(comm, options_of(3, 2), nullptr);
  std::vector<float> data(10);
  EXPECT(narrow.run(&data) == CC_ERROR_INVALID_ARGUMENT, "a chunk below an element");
  EXPECT(contains(cc_last_error(nullptr), "chunk_bytes is 3"), cc_last_error(nullptr));
  const auto run = [&](cc_cpu_reduce* of, void* buffer, cc_dtype dtype, cc_redop op) {
    return cc_cpu_reduce_run(of, buffer, buffer, 10, dtype, op, nullptr);
  };
  EXPECT(run(nullptr, data.data(), CC_FLOAT32, CC_SUM) == CC_ERROR_INVALID_ARGUMENT, "no handle");
  EXPECT(run(narrow.get(), nullptr, CC_INT8, CC_SUM) == CC_ERROR_INVALID_ARGUMENT, "no buffer");
  EXPECT(run(narrow.get(), data.data(), cc_dtype{99}, CC_SUM) == CC_ERROR_INVALID_ARGUMENT, "dtype");
  EXPECT(run(narrow.get(), data.data(), CC_INT8, cc_redop{99}) == CC_ERROR_INVALID_ARGUMENT, "reduction");
  EXPECT(run(narrow.get(), data.data(), CC_INT8, CC_SUM) == CC_SUCCESS, "the communicator has no error");
  EXPECT(cc_cpu_reduce_destroy(nullptr) == CC_SUCCESS, "null");
}

void one_run_at_a_time(cc_comm* comm) {
  PollEngine engine;
  const cc_copy_engine callbacks = engine.callbacks();
  const Handle handle(comm, options_of(4096, 2), &callbacks);
  std::vector<float> data(10);
  int refused = 0;
  engine.on_poll = [&] {
    std::vector<float> other(10);
    if (handle.run(&other) == CC_ERROR_INVALID_USAGE) ++refused;
    if (cc_cpu_reduce_destroy(handle.get()) == CC_ERROR_INVALID_USAGE) ++refused;
  };
  EXPECT(handle.run(&data) == CC_SUCCESS, last_error(comm));
  EXPECT(refused == 2 * (engine.polls_to_host + engine.polls_to_device), refused, " were refused");
}

}  // namespace

void cpu_reduce() {
  for (const bool polled : {false, true}) {
    for (int nranks = 1; nranks <= 3; ++nranks) results_are_right("shm", nranks, polled);
    results_are_right("tcp", 2, polled);
    results_are_right("mixed", 4, polled);
  }
  for (const int32_t slots : {1, 2, 3, 5}) copies_go_on_beside_the_reduction(slots);
  a_copy_that_fails_ends_all_ranks("shm", true);
  a_copy_that_fails_ends_all_ranks("tcp", false);
  a_copy_that_does_not_end_meets_the_deadline();
  different_calls_are_noticed();
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    wrong_calls_are_refused(comm);
    one_run_at_a_time(comm);
  });
}

}  // namespace test
