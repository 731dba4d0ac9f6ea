// Collectives on device memory, with stand-ins for the driver and the CUDA library: which memory an operation is on, how
// ranks meet, what they count, and which errors they get when they differ or one of them fails.
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

// Of a stand-in, as a program has its driver loaded and the library its part.
template <typename Function>
Function function_of(const char* library, const char* name) {
  void* const loaded = dlopen(library, RTLD_NOW);
  if (!loaded) throw Failed(dlerror());
  void* const found = dlsym(loaded, name);
  if (!found) throw Failed(std::string("no function ") + name);
  return reinterpret_cast<Function>(found);
}

void mark(const void* memory, size_t bytes) {
  static const auto function = function_of<void (*)(const void*, size_t)>(CCORE_STAND_IN_DRIVER_FILE, "stand_in_mark");
  function(memory, bytes);
}

int alive() { return function_of<int (*)()>(CCORE_STAND_IN_CUDA_FILE, "stand_in_alive")(); }
void fail_next() { function_of<void (*)(int)>(CCORE_STAND_IN_CUDA_FILE, "stand_in_fail")(1); }
void* last_stream() { return function_of<void* (*)()>(CCORE_STAND_IN_CUDA_FILE, "stand_in_last_stream")(); }

// Numbers that count as device memory, for as long as the process lives: an address is never marked twice.
float* device_numbers(size_t count, float value) {
  static std::vector<std::vector<float>*> kept;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  kept.push_back(new std::vector<float>(count, value));
  mark(kept.back()->data(), count * sizeof(float));
  return kept.back()->data();
}

cc_op_options on_stream(void* stream, cc_memory memory = CC_MEMORY_AUTO) {
  cc_op_options options{};
  options.size = sizeof options;
  options.memory = memory;
  options.stream = stream;
  return options;
}

cc_result reduce(cc_comm* comm, float* data, size_t count, const cc_op_options* options = nullptr) {
  return cc_all_reduce(data, data, count, CC_FLOAT32, CC_SUM, comm, options);
}

std::string ways(cc_comm* comm) {
  size_t count = 64;
  std::vector<cc_count> rows(count);
  EXPECT(cc_comm_counts(comm, rows.data(), sizeof rows[0], &count) == CC_SUCCESS, cc_last_error(nullptr));
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (rows[i].operation == CC_OPERATION_MEETING || rows[i].operation == CC_OPERATION_SPLIT) continue;
    text += std::to_string(rows[i].operation) + ":" + std::to_string(rows[i].bytes) + ":" + rows[i].algorithm + "*" +
            std::to_string(rows[i].calls) + " ";
  }
  return text;
}

void memory_decides(const char* layout, const char* on_host) {
  run_ranks(4, layout_named(layout), [&](int rank, cc_comm* comm) {
    const auto value = static_cast<float>(rank + 1);
    float* const device = device_numbers(8, value);
    std::vector<float> host(8, value);
    int stream = 0;
    const cc_op_options options = on_stream(&stream);
    EXPECT(reduce(comm, device, 8, &options) == CC_SUCCESS && device[7] == 10, last_error(comm));
    EXPECT(reduce(comm, host.data(), 8) == CC_SUCCESS && host[7] == 10, last_error(comm));
    EXPECT(reduce(comm, device, 4) == CC_SUCCESS && device[0] == 40 && device[4] == 10, last_error(comm));
    const std::string expected = "1:32:gpu*1 1:32:" + std::string(on_host) + "*1 1:16:gpu*1 ";
    EXPECT(ways(comm) == expected, ways(comm));
    // What the caller says counts, whatever the driver has.
    const cc_op_options forced = on_stream(nullptr, CC_MEMORY_HOST);
    EXPECT(reduce(comm, device, 2, &forced) == CC_SUCCESS && device[0] == 160, last_error(comm));
    const cc_op_options device_forced = on_stream(nullptr, CC_MEMORY_DEVICE);
    EXPECT(reduce(comm, host.data(), 2, &device_forced) == CC_SUCCESS && host[0] == 40, last_error(comm));
    cc_op_stats stats{};
    stats.size = sizeof stats;
    EXPECT(cc_comm_stats(comm, CC_OPERATION_ALL_REDUCE, &stats) == CC_SUCCESS && stats.calls == 5, stats.calls);
  });
  EXPECT(alive() == 0, "handles are left: ", alive());
}

void blocks_go_where_they_belong() {
  for (const int nranks : {1, 3}) {
    run_ranks(nranks, layout_named("shm"), [&](int rank, cc_comm* comm) {
      const auto ranks = static_cast<size_t>(nranks);
      // Rank r gives r + 1 numbers to each, which lie behind a gap of one.
      std::vector<size_t> counts(ranks), offsets(ranks), mine(ranks, static_cast<size_t>(rank) + 1), from(ranks);
      size_t total = 1;
      for (size_t r = 0; r < ranks; ++r) {
        counts[r] = r + 1;
        offsets[r] = total;
        from[r] = 1 + r * mine[r];
        total += counts[r];
      }
      float* const send = device_numbers(1 + ranks * mine[0], static_cast<float>(rank));
      float* const recv = device_numbers(total, -1);
      EXPECT(cc_all_gatherv(send, recv, counts.data(), offsets.data(), CC_FLOAT32, comm, nullptr) == CC_SUCCESS,
             last_error(comm));
      EXPECT(recv[0] == -1 && recv[1] == 0 && recv[total - 1] == static_cast<float>(nranks - 1), recv[total - 1]);
      std::fill(recv, recv + total, -1.0F);
      EXPECT(cc_all_to_allv(send, mine.data(), from.data(), recv, counts.data(), offsets.data(), CC_FLOAT32, comm,
                            nullptr) == CC_SUCCESS,
             last_error(comm));
      EXPECT(recv[0] == -1 && recv[1] == 0 && recv[total - 1] == static_cast<float>(nranks - 1), recv[total - 1]);
    });
  }
}

void other_arguments_are_refused() {
  run_ranks(2, layout_named("tcp"), [](int, cc_comm* comm) {
    float* const device = device_numbers(4, 1);
    float host[4] = {};
    const auto refuses = [&](cc_result result, const char* text) {
      EXPECT(result == CC_ERROR_INVALID_ARGUMENT && contains(cc_last_error(nullptr), text), cc_last_error(nullptr));
    };
    refuses(cc_all_reduce(device, host, 4, CC_FLOAT32, CC_SUM, comm, nullptr),
            "send is device memory and recv is host memory; expected both of one kind");
    refuses(cc_send(device, 4, CC_FLOAT32, 0, comm, nullptr), "the buffer of a message is device memory");
    cc_op_options options = on_stream(nullptr, static_cast<cc_memory>(3));
    refuses(reduce(comm, host, 4, &options), "cc_op_options.memory is not one of cc_memory");
    // Of an older version, which has neither memory nor stream.
    options.size = offsetof(cc_op_options, memory);
    EXPECT(reduce(comm, host, 4, &options) == CC_SUCCESS, last_error(comm));
  });
}

// Before the ranks have met, and after it.
void ranks_that_differ_are_told() {
  for (const char* layout : {"shm", "tcp"}) {
    for (const bool have_met : {false, true}) {
      run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
        float* const device = device_numbers(4, 1);
        std::vector<float> host(4);
        if (have_met) EXPECT(reduce(comm, device, 4) == CC_SUCCESS, last_error(comm));
        const cc_result result = reduce(comm, rank == 0 ? device : host.data(), 4);
        const std::string text = last_error(comm);
        const char* const expected = have_met ? "all_reduce(count=4, f32, sum) on device memory"
                                              : "the meeting before the first operation on device memory";
        // A rank whose operation is only queued finds out at its next call.
        if (rank == 1 || result != CC_SUCCESS) {
          EXPECT(result != CC_SUCCESS && contains(text, "different operations") && contains(text, expected), text);
        }
      });
    }
  }
}

void a_failure_reaches_all() {
  run_ranks(3, layout_named("tcp"), [](int rank, cc_comm* comm) {
    float* const device = device_numbers(4, 1);
    EXPECT(reduce(comm, device, 4) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    if (rank == 0) fail_next();
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    const cc_result result = reduce(comm, device, 4);
    EXPECT(result != CC_SUCCESS && contains(last_error(comm), "the GPU has fallen off the bus"), last_error(comm));
    EXPECT(reduce(comm, device, 4) == result, "the first error is sticky");
  });
  EXPECT(alive() == 0, alive());
}

void a_destroyed_communicator_ends_its_operations() {
  run_ranks(2, layout_named("tcp"), [](int rank, cc_comm* comm) {
    float* const device = device_numbers(4, 1);
    EXPECT(reduce(comm, device, 4) == CC_SUCCESS, last_error(comm));
    if (rank == 1) return;  // and destroys its own: the other must not wait for its deadline
    EXPECT(reduce(comm, device, 4) != CC_SUCCESS, "the other rank is not there");
  });
}

void it_is_described() {
  run_ranks(2, layout_named("shm"), [](int, cc_comm* comm) {
    const auto described = [&](size_t count) {
      cc_description description{};
      description.size = sizeof description;
      EXPECT(
          cc_describe(comm, CC_OPERATION_ALL_REDUCE, count, CC_FLOAT32, CC_MEMORY_DEVICE, &description) == CC_SUCCESS,
          cc_last_error(nullptr));
      EXPECT(description.path == std::string("device"), description.path);
      return std::string(description.algorithm);
    };
    EXPECT(described(10).empty(), "the ranks have not met");
    float* const device = device_numbers(4, 1);
    EXPECT(reduce(comm, device, 4) == CC_SUCCESS, last_error(comm));
    EXPECT(described(10) == "staged" && described(2000) == "2d_gpu", described(10));
  });
}

void the_stream_is_passed_on() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    int stream = 0;
    const cc_op_options options = on_stream(&stream);
    EXPECT(reduce(comm, device_numbers(4, 1), 4, &options) == CC_SUCCESS && last_stream() == &stream, last_error(comm));
  });
}

}  // namespace

void device_memory() {
  mark(nullptr, 0);  // loads the driver, as a program does before it makes a communicator
  memory_decides("shm", "oneshot");
  memory_decides("mixed", "doubling");
  blocks_go_where_they_belong();
  other_arguments_are_refused();
  ranks_that_differ_are_told();
  a_failure_reaches_all();
  a_destroyed_communicator_ends_its_operations();
  it_is_described();
  the_stream_is_passed_on();
}

}  // namespace test
