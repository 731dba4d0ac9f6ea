// What the library reports of its decisions: the algorithm of the next operation, the limits, and all settings.
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "ranks.h"
#include "variable.h"

namespace test {
namespace {

cc_description described(cc_comm* comm, cc_operation operation, size_t count, cc_dtype dtype = CC_FLOAT32) {
  cc_description description{};
  description.size = sizeof description;
  EXPECT(cc_describe(comm, operation, count, dtype, CC_MEMORY_HOST, &description) == CC_SUCCESS,
         cc_last_error(nullptr));
  return description;
}

cc_limits limits_of(cc_comm* comm) {
  cc_limits limits{};
  limits.size = sizeof limits;
  EXPECT(cc_get_limits(comm, &limits) == CC_SUCCESS, cc_last_error(nullptr));
  return limits;
}

std::vector<cc_setting> settings_of(cc_comm* comm) {
  size_t count = 0;
  EXPECT(cc_get_settings(comm, nullptr, sizeof(cc_setting), &count) == CC_SUCCESS, cc_last_error(nullptr));
  std::vector<cc_setting> all(count);
  EXPECT(cc_get_settings(comm, all.data(), sizeof(cc_setting), &count) == CC_SUCCESS && count == all.size(), count);
  return all;
}

cc_setting setting_of(cc_comm* comm, const std::string& name) {
  for (const cc_setting& one : settings_of(comm)) {
    if (one.name == name) return one;
  }
  throw Failed("no setting " + name);
}

std::string last_algorithm(cc_comm* comm) {
  cc_trace_entry entry{};
  size_t count = 1;
  EXPECT(cc_comm_trace(comm, &entry, sizeof entry, &count) == CC_SUCCESS && count == 1, cc_last_error(nullptr));
  return entry.algorithm;
}

void the_description_is_what_runs(const char* layout, const char* transport) {
  run_ranks(4, layout_named(layout), [&](int, cc_comm* comm) {
    const auto nranks = size_t{4};
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{20000}, size_t{700001}}) {
      std::vector<float> send(count * nranks);
      std::vector<float> recv(count * nranks);
      const auto agrees = [&](cc_operation operation, cc_result result) {
        EXPECT(result == CC_SUCCESS, last_error(comm));
        // After the operation, since its size may have been measured in front of it.
        const cc_description now = described(comm, operation, count);
        EXPECT(now.algorithm == last_algorithm(comm), now.algorithm, " of operation ", int{operation}, " with ", count);
        EXPECT(now.path == std::string("host") && now.transport == std::string(transport), now.transport);
      };
      agrees(CC_OPERATION_ALL_REDUCE,
             cc_all_reduce(send.data(), recv.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr));
      agrees(CC_OPERATION_BROADCAST, cc_broadcast(send.data(), recv.data(), count, CC_FLOAT32, 0, comm, nullptr));
      agrees(CC_OPERATION_REDUCE, cc_reduce(send.data(), recv.data(), count, CC_FLOAT32, CC_SUM, 0, comm, nullptr));
      agrees(CC_OPERATION_ALL_GATHER, cc_all_gather(send.data(), recv.data(), count, CC_FLOAT32, comm, nullptr));
      agrees(CC_OPERATION_REDUCE_SCATTER,
             cc_reduce_scatter(send.data(), recv.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr));
      agrees(CC_OPERATION_ALL_TO_ALL, cc_all_to_all(send.data(), recv.data(), count, CC_FLOAT32, comm, nullptr));
    }
    EXPECT(described(comm, CC_OPERATION_ALL_GATHER, 10).bytes == 160, "of all ranks");
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 10).bytes == 40, "of one rank");
  });
}

void reasons_are_told_apart() {
  run_ranks(2, layout_named("tcp"), [](int, cc_comm* comm) {
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 1024).reason == CC_REASON_MODEL, "nothing was measured");
    EXPECT(described(comm, CC_OPERATION_BARRIER, 0).reason == CC_REASON_ONLY, "it has no choice");
    EXPECT(cc_tuner_set(comm, "all_reduce", 4096, CC_FLOAT32, "ring") == CC_SUCCESS, last_error(comm));
    const cc_description set = described(comm, CC_OPERATION_ALL_REDUCE, 1024);
    EXPECT(set.reason == CC_REASON_TUNER && set.algorithm == std::string("ring"), set.algorithm);
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 4096).reason == CC_REASON_MODEL, "of another class of sizes");
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 2048, CC_FLOAT16).reason == CC_REASON_MODEL, "of another type");
  });
  const Variable forced("CCORE_ALGO", "all_reduce:halving");
  run_ranks(2, layout_named("tcp"), [](int, cc_comm* comm) {
    const cc_description now = described(comm, CC_OPERATION_ALL_REDUCE, 1024);
    EXPECT(now.reason == CC_REASON_FORCED && now.algorithm == std::string("halving"), now.algorithm);
    const cc_limits limits = limits_of(comm);
    EXPECT(limits.least_2d_bytes > limits.most_2d_bytes, "2d is not taken beside what is forced");
    for (const int64_t least : limits.least_device_2d_bytes) EXPECT(least == INT64_MAX, "one node: ", least);
  });
}

void limits_are_those_of_rank_0() {
  Layout layout = layout_named("mixed");
  layout.timeout_ms = 12345;
  run_ranks(4, layout, [](int, cc_comm* comm) {
    const cc_limits limits = limits_of(comm);
    EXPECT(limits.timeout_ms == 12345, limits.timeout_ms);
    EXPECT(limits.least_2d_bytes == 65536 && limits.most_2d_bytes == INT64_MAX, limits.least_2d_bytes);
    const int64_t* const device = limits.least_device_2d_bytes;
    EXPECT(device[0] == 262144 && device[1] == 4194304 && device[2] == 262144 && device[3] == INT64_MAX, device[0]);
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 65536).algorithm == std::string("2d"), "above the limit");
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 65536).transport == std::string("shm+tcp"), "both");
  });
  const Variable least("CCORE_HIERARCHICAL_THRESHOLD", "4096");
  const Variable most("CCORE_2D_LIMIT", "8192");
  run_ranks(4, layout_named("mixed"), [](int, cc_comm* comm) {
    const cc_limits limits = limits_of(comm);
    EXPECT(limits.least_2d_bytes == 4096 && limits.most_2d_bytes == 8192, limits.most_2d_bytes);
    for (const auto& [count, within] : {std::pair{1023, false}, std::pair{1024, true}, std::pair{2049, false}}) {
      const cc_description now = described(comm, CC_OPERATION_ALL_REDUCE, static_cast<size_t>(count));
      EXPECT((now.algorithm == std::string("2d")) == within, now.algorithm, " for ", count);
    }
  });
}

void settings_have_their_source() {
  const Variable secret("CCORE_JOB_SECRET", "hunter2");
  const Variable alias("LIGHT_2D_ALLREDUCE", "0");
  const Variable timeout("CCORE_TIMEOUT_S", "7");
  run_ranks(2, layout_named("tcp"), [](int rank, cc_comm* comm) {
    const cc_setting hidden = setting_of(comm, "CCORE_JOB_SECRET");
    EXPECT(hidden.secret == 1 && hidden.value == std::string("***"), hidden.value);
    const cc_setting switched = setting_of(comm, "CCORE_2D");
    EXPECT(switched.source == (rank == 0 ? CC_SETTING_ENVIRONMENT : CC_SETTING_RANK_0), switched.source);
    EXPECT(switched.spelled == std::string("LIGHT_2D_ALLREDUCE") && switched.value == std::string("0"), "by its alias");
    EXPECT(setting_of(comm, "CCORE_TIMEOUT_S").source == CC_SETTING_CONFIG, "which the layout sets");
    EXPECT(setting_of(comm, "CCORE_SHM_RING_BYTES").source == CC_SETTING_DEFAULT, "unset");
    EXPECT(setting_of(comm, "CCORE_SHM_RING_BYTES").spelled == std::string(), "unset");
    const cc_setting not_used = setting_of(comm, "CCORE_CMA");
    EXPECT(not_used.source == CC_SETTING_NOT_USED && not_used.note[0] != '\0', not_used.note);
    EXPECT(setting_of(nullptr, "CCORE_TIMEOUT_S").source == CC_SETTING_ENVIRONMENT, "without a communicator");
    struct Short {
      size_t size;
      int32_t source;
      int32_t secret;
    } one{};
    size_t count = 1;
    EXPECT(cc_get_settings(comm, reinterpret_cast<cc_setting*>(&one), sizeof one, &count) == CC_SUCCESS, "short");
    EXPECT(count == settings_of(comm).size() && one.size == sizeof one, count);
  });
}

void wrong_arguments_are_refused() {
  run_ranks(1, layout_named("shm"), [](int, cc_comm* comm) {
    cc_description description{};
    cc_limits limits{};
    const auto refuses = [](cc_result result, const std::string& text) {
      EXPECT(result == CC_ERROR_INVALID_ARGUMENT && contains(cc_last_error(nullptr), text), cc_last_error(nullptr));
    };
    refuses(cc_get_limits(comm, &limits), "cc_limits.size is not set");
    refuses(cc_get_limits(nullptr, &limits), "an argument is null");
    refuses(cc_describe(comm, CC_OPERATION_ALL_REDUCE, 1, CC_FLOAT32, CC_MEMORY_AUTO, &description),
            "cc_description.size is not set");
    description.size = sizeof description;
    refuses(cc_describe(comm, CC_OPERATION_SEND, 1, CC_FLOAT32, CC_MEMORY_AUTO, &description),
            "has no algorithm to choose");
    refuses(cc_describe(comm, static_cast<cc_operation>(77), 1, CC_FLOAT32, CC_MEMORY_AUTO, &description),
            "is not a collective");
    refuses(cc_describe(comm, CC_OPERATION_ALL_REDUCE, 1, static_cast<cc_dtype>(99), CC_MEMORY_AUTO, &description),
            "unknown dtype");
    refuses(cc_describe(comm, CC_OPERATION_ALL_REDUCE, SIZE_MAX, CC_FLOAT32, CC_MEMORY_AUTO, &description),
            "count is too large");
    refuses(cc_get_settings(comm, nullptr, sizeof(cc_setting), nullptr), "count is null");
    EXPECT(described(comm, CC_OPERATION_ALL_REDUCE, 5).transport == std::string("self"), "one rank");
  });
}

}  // namespace

void describe() {
  the_description_is_what_runs("shm", "shm");
  the_description_is_what_runs("tcp", "tcp");
  the_description_is_what_runs("cyclic", "shm+tcp");
  reasons_are_told_apart();
  limits_are_those_of_rank_0();
  settings_have_their_source();
  wrong_arguments_are_refused();
}

}  // namespace test
